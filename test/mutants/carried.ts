import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with the payload that a job's row carries. */
export const CARRIED: readonly Mutant[] = [
  {
    name: 'a carried payload that is handed over again',
    promise: 'P3',
    breaks: 'What a round has performed comes once more with the next one.',
    edits: [
      sql(
        'complete',
        'payload = CASE WHEN r.place = ANY (_spared) THEN j.payload END',
        'payload = j.payload',
      ),
    ],
    tests: ['store/next-round'],
  },
  {
    name: 'a carried payload lost by a cut that spared it',
    promise: 'P3',
    breaks: 'With maxPayloads, what the round has left for the next one is gone.',
    edits: [
      sql('complete', 'payload = CASE WHEN r.place = ANY (_spared) THEN j.payload END', 'payload = NULL'),
    ],
    tests: ['store/carried', 'store/batch'],
  },
  {
    name: 'a carried payload lost by the death of another',
    promise: 'P3',
    breaks: 'A pushed payload with a lower score dies, and the carried one is gone with it.',
    edits: [sql('bury_failed', 'payload = CASE WHEN d.is_left THEN j.payload END', 'payload = NULL')],
    tests: ['store/carried', 'store/failure'],
  },
  {
    name: 'a carried payload that stays when its equal dies',
    promise: 'R7',
    breaks: 'A dead payload is performed again, since an equal one of an earlier round is left in the row.',
    edits: [
      sql(
        'bury_failed',
        't.payload IS NOT NULL AND @schema@.digest_of(t.payload) IS DISTINCT FROM d.digest',
        't.payload IS NOT NULL',
      ),
    ],
    tests: ['store/carried', 'store/failure'],
  },
  {
    name: 'a carried payload that is not killed',
    promise: 'R11',
    breaks: 'Killing a job deletes it.',
    edits: [sql('kill', 'AND t.payload IS NOT NULL', 'AND false')],
    tests: ['admin/jobs', 'store/merge'],
  },
  {
    name: 'a carried payload that a requeue deletes',
    promise: 'P3',
    breaks:
      'Requeueing what somebody else has just requeued or deleted deletes the job that waits under its id.',
    edits: [sql('requeue', 'j.payload IS NULL AND NOT EXISTS', 'NOT EXISTS')],
    tests: ['store/carried', 'admin/morgue'],
  },
  {
    name: 'a carried payload that keeps the larger score',
    promise: 'R2',
    breaks: 'An equal payload with a lower score is dropped.',
    edits: [sql('covers', '_carried_score > _score', 'false')],
    tests: ['store/merge'],
  },
  {
    name: 'a push that is swallowed by what is in progress',
    promise: 'P5',
    breaks: 'A push during a round that equals the carried payload never comes.',
    edits: [sql('covers', '_claimed_by IS NOT NULL OR', '')],
    tests: ['store/next-round', 'store/carried'],
  },
  {
    name: 'a push that the row does not know of',
    promise: 'P3',
    breaks: 'The claim does not look for it, and the completion leaves it behind.',
    edits: [
      sql('enqueue', 'excluded.perform_in) END, has_payloads = true', 'excluded.perform_in) END'),
      sql('put_jobs', 'excluded.perform_in) END, has_payloads = true', 'excluded.perform_in) END'),
    ],
    tests: ['store/merge'],
  },
  {
    name: 'a second push of one call that the row does not know of',
    promise: 'P3',
    breaks: 'Of two payloads for a new id in one call, the second one never comes.',
    edits: [sql('put_jobs', 'IF _repeated IS NOT NULL', 'IF false')],
    tests: ['store/merge'],
  },
  {
    name: 'a push that goes by a job which has been finished',
    promise: 'P3',
    breaks:
      'At REPEATABLE READ, a payload is stored twice, or not at all if the finished job carried an equal one.',
    edits: [sql('put_jobs', 'ORDER BY j.id FOR NO KEY UPDATE', 'ORDER BY j.id')],
    tests: ['store/producers'],
  },
  {
    name: 'a requeued payload that the row does not know of',
    promise: 'P3',
    breaks: 'What came back from the morgue is left behind by the next completion.',
    edits: [sql('requeue', 'next_perform_in = NULL, has_payloads = true,', 'next_perform_in = NULL,')],
    tests: ['admin/morgue', 'store/carried'],
  },
  {
    name: 'a new row that carries nothing, taken for one that does',
    promise: 'P3',
    breaks: 'What is pushed while jobs do not carry yet, or begin to, is stored nowhere.',
    edits: [sql('put_jobs', 'put.fence = _fence AND NOT put.has_payloads', 'put.fence = _fence')],
    tests: ['processes/two-rows.slow'],
  },
  {
    name: 'jobs begin to carry while a transaction of before idles',
    promise: 'P3',
    breaks: 'It calls the function of before, and a job does not know of what that pushes.',
    edits: [source('postgres/carrying', 'a.usesysid IS NOT NULL', "a.state NOT LIKE 'idle%'")],
    tests: ['processes/two-rows.slow'],
  },
  {
    name: 'a short payload with a long text comes with its claim',
    promise: 'R9',
    breaks: 'What is longer than maxBytes reaches a process before its claim is committed.',
    edits: [sql('claim', ' OR _size > _max_bytes[place]', '')],
    tests: ['store/bytes'],
  },
  {
    name: 'roles of the release before lack what the new functions call',
    promise: 'P3',
    breaks: 'Processes that go on after a migration can store no outcome of jobs that wait.',
    edits: [sql('inherited', 'WHERE a.grantee <> 0', 'WHERE false')],
    tests: ['security/previous-roles'],
  },
]
