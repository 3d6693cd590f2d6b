import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with the headers of payloads. */
export const HEADERS: readonly Mutant[] = [
  {
    name: 'headers of the lowest score, in one call',
    promise: 'R2',
    breaks: 'Of two equal payloads in one call the later one’s headers stay.',
    edits: [sql('put_jobs', '  IF _headers IS NOT NULL THEN\n', '  IF false THEN\n')],
    tests: ['store/headers'],
  },
  {
    name: 'headers of the last push',
    promise: 'R2',
    breaks: 'A later push of an equal payload replaces the headers.',
    edits: ['enqueue', 'put_jobs'].map((name) =>
      sql(
        name,
        'THEN excluded.headers ELSE p.headers END',
        'THEN excluded.headers ELSE excluded.headers END',
      ),
    ),
    tests: ['store/headers'],
  },
  {
    name: 'headers of a later round',
    promise: 'R4',
    breaks: 'Of two equal payloads the headers of the one pushed while the other was in work stay.',
    edits: [source('store/claim', 'other.seq < one.seq', 'other.seq > one.seq')],
    tests: ['store/headers'],
  },
  {
    name: 'headers of a later round, where a round is bounded',
    promise: 'R4',
    breaks: 'The same, in a queue with maxPayloads.',
    edits: [
      sql(
        'payloads_of_round',
        'CASE f.earliest WHEN -1 THEN _carried_headers WHEN f.fence THEN t.headers ELSE e.headers END',
        't.headers',
      ),
    ],
    tests: ['store/headers'],
  },
  {
    name: 'headers of a later round, of what dies',
    promise: 'R7',
    breaks: 'In the morgue, the headers of an equal payload stand that was pushed later.',
    edits: [sql('bury_failed', 'ORDER BY e.fence LIMIT 1', 'ORDER BY e.fence DESC LIMIT 1')],
    tests: ['store/headers'],
  },
  {
    name: 'headers replaced by a requeue',
    promise: 'R5',
    breaks: 'A dead payload comes back to an equal one that waits, and replaces its headers.',
    edits: [
      sql(
        'requeue',
        'THEN excluded.headers ELSE p.headers END',
        'THEN excluded.headers ELSE excluded.headers END',
      ),
    ],
    tests: ['store/headers'],
  },
  {
    name: 'headers that no claim counts',
    promise: 'R9',
    breaks: 'An answer has more bytes than a claim may bring.',
    edits: [sql('claim', ' + coalesce(octet_length(headers), 0)', '', 2)],
    tests: ['store/headers'],
  },
]
