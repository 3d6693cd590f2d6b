import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes that any ordered queue is tempted to make. */
export const CLASSIC: readonly Mutant[] = [
  {
    name: 'payloads read in the locking statement',
    promise: 'P3',
    breaks: 'A payload committed while the claim waits for its lock is not handed over, and deleted unseen.',
    edits: [
      sql(
        'claim',
        'SELECT j.ctid, j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by, j.fence,\n',
        `SELECT j.ctid, j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by, j.fence,
      (SELECT string_agg(p.seq::text, ',') FROM @schema@.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id) AS seen,\n`,
      ),
      sql(
        'claim',
        'max(d.fence),\n',
        `max(d.fence), string_to_array(string_agg(d.seen, ','), ',')::bigint[],\n`,
      ),
      sql('claim', '_highest, _suspects, _have_run\n', '_highest, _seen, _suspects, _have_run\n'),
      sql('claim', '  _rescued boolean[];\n', '  _rescued boolean[];\n  _seen bigint[];\n'),
      sql(
        'claim',
        'AND p.job_id = c.id AND p.fence < _fence\n',
        'AND p.job_id = c.id AND p.fence < _fence AND p.seq = ANY (_seen)\n',
      ),
    ],
    tests: ['store/claim-interleaving'],
  },
  {
    name: 'completion without fence',
    promise: 'P6',
    breaks:
      'A round that was released ends the next one of the same process, whose payloads nobody has seen.',
    edits: [sql('lock_claims', 'AND j.fence = r.fence AND j.claimed_by', 'AND j.claimed_by', 2)],
    tests: ['store/fence'],
  },
  {
    name: 'completion by payload count',
    promise: 'P5',
    breaks:
      'A push that commits after the completion’s snapshot is not seen: its job goes, its payload is stranded.',
    edits: [
      sql('complete', 'FILTER (WHERE NOT h.again AND', 'FILTER (WHERE NOT n.more AND', 2),
      sql('complete', 'FILTER (WHERE h.again OR', 'FILTER (WHERE n.more OR', 2),
      sql(
        'complete',
        '_ids, _fences, _wait) h;',
        `_ids, _fences, _wait) h
  CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS more FROM @schema@.payloads p
    WHERE p.queue_id = _queue_ids[h.place] AND p.job_id = _ids[h.place] AND p.fence >= _fences[h.place]
  ) n;`,
      ),
    ],
    tests: ['store/settle-interleaving'],
  },
  {
    name: 'no sort',
    promise: 'P2',
    breaks: 'A handler gets an id’s payloads in the order of their digests.',
    edits: [
      sql('payloads_of_round', '      ORDER BY d.has_expired, d.score, d.seq OFFSET 0\n', '      OFFSET 0\n'),
      source('store/claim', 'a.score - b.score || a.seq - b.seq', '0'),
    ],
    tests: ['store/merge'],
  },
  {
    name: 'fence before lock',
    promise: 'P3',
    breaks:
      'A payload pushed under a fence given out in between lies above the claim’s own: it is not handed over.',
    edits: [
      sql('claim', '  _fence bigint;\n', `  _fence constant bigint := nextval('@schema@.fences');\n`),
      sql('claim', `    _fence := nextval('@schema@.fences');\n`, ''),
    ],
    tests: ['store/claim-interleaving'],
  },
  {
    name: 'lease from the main thread',
    promise: 'P1',
    breaks: 'A handler that blocks the event loop loses the lease, and another process takes its id.',
    edits: [
      source(
        'worker/membership/lease-thread',
        '  if (renewing.length === 0) return\n',
        `  if (renewing.length === 0) return
  port.postMessage({ kind: 'ping' } as never)
  await new Promise((answered) => port.once('message', answered))\n`,
      ),
      source(
        'worker/membership/lease-thread',
        '  else void stop()',
        `  else if (command.kind === 'stop') void stop()`,
      ),
      source(
        'worker/membership/lease',
        '  #hear(message: LeaseMessage): void {\n',
        `  #hear(message: LeaseMessage): void {
    if ((message.kind as string) === 'ping') return this.#send({ kind: 'pong' } as never)\n`,
      ),
    ],
    tests: ['worker/p1-lease', 'worker/lease'],
  },
  {
    name: 'cursor never reset',
    promise: 'P8',
    breaks: 'What was committed late, or waits again, behind the cursor is passed over for ever.',
    edits: [
      source('worker/schedule/lane', 'this.cursor = before(performIn)\n    return true', 'return true'),
    ],
    tests: ['worker/p3-full-look', 'worker/timetable'],
  },
  {
    name: 'equal payload dropped while in work',
    promise: 'P5',
    breaks: 'A push that equals a payload in work is taken for a repetition of it and swallowed.',
    edits: [
      sql(
        'put_jobs',
        '\n  ON CONFLICT (queue_id, job_id',
        `
    AND j.payload IS DISTINCT FROM i.payload AND NOT EXISTS (
      SELECT FROM @schema@.payloads e
      WHERE e.queue_id = j.queue_id AND e.job_id = j.id AND e.fence < j.fence AND e.digest = i.digest
    )
  ON CONFLICT (queue_id, job_id`,
      ),
      sql(
        'enqueue',
        '  INSERT INTO @schema@.payloads AS p',
        `  IF EXISTS (
    SELECT FROM @schema@.payloads e
    WHERE e.queue_id = _queue_id AND e.job_id = _id AND e.fence < _fence AND e.digest = @schema@.digest_of(_payload)
    UNION ALL
    SELECT FROM @schema@.jobs c WHERE c.queue_id = _queue_id AND c.id = _id AND c.payload = _payload
  ) THEN
    RETURN;
  END IF;
  INSERT INTO @schema@.payloads AS p`,
      ),
    ],
    tests: ['store/next-round'],
  },
  {
    name: 'score by max',
    promise: 'R2',
    breaks: 'An equal payload pushed again moves the waiting one back instead of leaving its place.',
    edits: ['enqueue', 'put_jobs']
      .map((name) => sql(name, 'least(p.score, excluded.score)', 'greatest(p.score, excluded.score)'))
      .concat(
        ['enqueue', 'put_jobs'].map((name) =>
          sql(name, '(excluded.score < p.score AND', '(excluded.score > p.score AND'),
        ),
      ),
    tests: ['store/merge'],
  },
  {
    name: 'release that counts as a retry',
    promise: 'R15',
    breaks: 'Every deployment brings the jobs it interrupts nearer to the morgue.',
    edits: [
      sql(
        'release',
        'SET next_perform_in = NULL,',
        'SET retry_count = j.retry_count + 1, next_perform_in = NULL,',
      ),
    ],
    tests: ['store/next-round'],
  },
]
