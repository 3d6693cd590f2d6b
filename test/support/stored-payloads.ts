/** All payloads that wait or are in progress, as a subquery: those in the table, and those that rows of jobs carry. */
export function storedPayloads(prefix = 'lockstep'): string {
  return `(SELECT queue_id, job_id, fence, digest, payload, headers, score, seq, expires_in FROM ${prefix}.payloads
    UNION ALL SELECT queue_id, id, -1, ${prefix}.digest_of(payload), payload, headers, score, 0, expires_in
    FROM ${prefix}.jobs WHERE payload IS NOT NULL)`
}
