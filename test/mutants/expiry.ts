import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with payloads that expire. */
export const EXPIRY: readonly Mutant[] = [
  {
    name: 'a push that would prolong, taken for a repetition',
    promise: 'R17',
    breaks: 'A payload that was pushed again, to live longer, expires at its first time.',
    edits: [sql('covers', " OR _carried_expires_in < coalesce(_expires_in, 'infinity')", '')],
    tests: ['store/expiry'],
  },
  {
    name: 'an equal payload that lies apart is not prolonged',
    promise: 'R17',
    breaks: 'The same, of a payload that its job’s row does not carry.',
    edits: ['enqueue', 'put_jobs'].map((name) =>
      sql(name, "WHERE p.expires_in < coalesce(excluded.expires_in, 'infinity')\n", 'WHERE false\n'),
    ),
    tests: ['store/expiry'],
  },
  {
    name: 'an expired payload that makes an equal one seem taken',
    promise: 'P3',
    breaks: 'A completion that spares what a limit left behind deletes a payload that nobody was handed.',
    edits: [sql('taken_of', 'WHEN d.expires_in IS NULL THEN true', 'WHEN true THEN true')],
    tests: ['store/expiry'],
  },
  {
    name: 'an expired payload that dies for another',
    promise: 'R7',
    breaks: 'What the handler failed at is tried for ever, and what it never saw lies in the morgue.',
    edits: [sql('bury_failed', '      WHERE p.expires_in IS NULL OR p.expires_in > j.claimed_at\n', '')],
    tests: ['store/expiry'],
  },
  {
    name: 'a sweep in work',
    promise: 'P3',
    breaks: 'What a handler has in work, and may have to try again, is deleted under it.',
    edits: [sql('remove_expired', ' AND j.claimed_by IS NULL\n', '\n')],
    tests: ['store/expiry-sweep'],
  },
  {
    name: 'a sweep that waits for a producer',
    promise: 'P7',
    breaks: 'A transaction that was left open keeps everything that has expired in the database.',
    edits: [sql('remove_expired', 'FOR UPDATE SKIP LOCKED', 'FOR UPDATE')],
    tests: ['store/expiry-sweep'],
  },
  {
    name: 'a sweep that takes what expires later for nothing',
    promise: 'P3',
    breaks: 'A job is deleted, and a payload stays behind that has its time yet.',
    edits: [
      sql(
        'remove_expired',
        'FROM @schema@.payloads p WHERE p.queue_id = _queue.queue_id AND p.job_id = h.id COLLATE "C" LIMIT 1',
        'FROM @schema@.payloads p WHERE p.queue_id = _queue.queue_id AND p.job_id = h.id COLLATE "C" AND p.expires_in IS NULL LIMIT 1',
      ),
    ],
    tests: ['store/expiry-sweep'],
  },
  {
    name: 'a batch that was claimed ahead, handed over after its time',
    promise: 'R17',
    breaks: 'What expires between claim and handler is handed over.',
    edits: [source('store/left-out', 'expiry === null || expiry > now ? [index] : []', '[index]')],
    tests: ['worker/expiry', 'store/expiry'],
  },
  {
    name: 'a transaction that began too late',
    promise: 'R17',
    breaks: 'What expires while the handler’s transaction begins is handed over.',
    edits: [source('worker/performing/transaction', 'if (anyExpired(', 'if (false && anyExpired(')],
    tests: ['worker/expiry'],
  },
]
