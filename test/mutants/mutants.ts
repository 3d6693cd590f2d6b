/** A change of the protocol that a test has to notice. */
export interface Mutant {
  readonly name: string
  /** What it attacks. */
  readonly promise: string
  readonly edits: readonly Edit[]
  /** Where it should be noticed, without `test/` and `.test.ts`. */
  readonly tests: readonly string[]
}

export interface Edit {
  readonly file: string
  /** Stands in the file exactly as often as `times`. */
  readonly from: string
  readonly to: string
  /** Default 1. */
  readonly times?: number
}

const sql = (name: string, from: string, to: string, times = 1): Edit => ({
  file: `sql/${name}.sql`,
  from,
  to,
  times,
})
const source = (name: string, from: string, to: string): Edit => ({ file: `src/${name}.ts`, from, to })

/** The ones that any ordered queue is tempted to be. */
export const CLASSIC: readonly Mutant[] = [
  {
    name: 'payloads read in the locking statement',
    promise: 'P3',
    edits: [
      sql(
        'claim',
        'SELECT j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by\n',
        `SELECT j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by,
      (SELECT string_agg(p.seq::text, ',') FROM @schema@.payloads p WHERE p.queue_id = _queue_id AND p.job_id = j.id) AS seen\n`,
      ),
      sql(
        'claim',
        'array_agg(d.claimed_by IS NOT NULL OR d.crashes > 0)',
        `array_agg(d.claimed_by IS NOT NULL OR d.crashes > 0), string_to_array(string_agg(d.seen, ','), ',')::bigint[]`,
      ),
      sql('claim', '_rescued, _suspects\n', '_rescued, _suspects, _seen\n'),
      sql('claim', '  _taken integer;\n', '  _taken integer;\n  _seen bigint[];\n'),
      sql('claim', 'AND p.fence < c.fence\n', 'AND p.fence < c.fence AND p.seq = ANY (_seen)\n'),
    ],
    tests: ['store/claim-interleaving'],
  },
  {
    name: 'completion without fence',
    promise: 'P6',
    edits: [sql('hold', 'AND j.fence = r.fence AND j.claimed_by', 'AND j.claimed_by', 2)],
    tests: ['store/fence'],
  },
  {
    name: 'completion by payload count',
    promise: 'P5',
    edits: [
      sql('complete', 'FILTER (WHERE NOT h.again AND', 'FILTER (WHERE NOT n.more AND'),
      sql('complete', 'FILTER (WHERE h.again OR', 'FILTER (WHERE n.more OR'),
      sql(
        'complete',
        '_ids, _fences, _wait) h;',
        `_ids, _fences, _wait) h
  CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS more FROM @schema@.payloads p
    WHERE p.queue_id = _queue_id AND p.job_id = _ids[h.place] AND p.fence >= _fences[h.place]
  ) n;`,
      ),
    ],
    tests: ['store/settle-interleaving'],
  },
  {
    name: 'no sort',
    promise: 'P2',
    edits: [
      sql('claim', '      ORDER BY f.score, f.seq\n', ''),
      sql('claim', 'ORDER BY c.place, p.score, p.seq', 'ORDER BY c.place'),
    ],
    tests: ['store/merge'],
  },
  {
    name: 'fence before lock',
    promise: 'P3',
    edits: [
      sql(
        'claim',
        '  _taken integer;\n',
        `  _taken integer;\n  _fence constant bigint := nextval('@schema@.fences');\n`,
      ),
      sql('claim', `fence = nextval('@schema@.fences'), `, 'fence = _fence, '),
    ],
    tests: ['store/claim-interleaving'],
  },
  {
    name: 'lease from the main thread',
    promise: 'P1',
    edits: [
      source(
        'worker/lease-thread',
        '  if (renewing.length === 0) return\n',
        `  if (renewing.length === 0) return
  port.postMessage({ kind: 'ping' } as never)
  await new Promise((answered) => port.once('message', answered))\n`,
      ),
      source('worker/lease-thread', '  else void stop()', `  else if (command.kind === 'stop') void stop()`),
      source(
        'worker/lease',
        '  #hear(message: LeaseMessage): void {\n',
        `  #hear(message: LeaseMessage): void {
    if ((message.kind as string) === 'ping') return this.#send({ kind: 'pong' } as never)\n`,
      ),
    ],
    tests: ['worker/lease'],
  },
  {
    name: 'cursor never reset',
    promise: 'P8',
    edits: [
      source('worker/timetable', `this.cursor = { after: performIn - 1, afterId: '' }`, 'void performIn'),
    ],
    tests: ['worker/timetable'],
  },
  {
    name: 'equal payload dropped while in work',
    promise: 'P5',
    edits: [
      sql(
        'enqueue_many',
        '  ORDER BY i.position\n  ON CONFLICT',
        `  WHERE j.claimed_by IS NULL OR NOT EXISTS (
    SELECT FROM @schema@.payloads e WHERE e.queue_id = j.queue_id AND e.job_id = j.id AND e.digest = i.digest
  )
  ORDER BY i.position\n  ON CONFLICT`,
      ),
    ],
    tests: ['store/next-round'],
  },
  {
    name: 'score by max',
    promise: 'R2',
    edits: [sql('enqueue_many', 'WHERE excluded.score < p.score;', 'WHERE excluded.score > p.score;')],
    tests: ['store/merge'],
  },
  {
    name: 'release that counts as a retry',
    promise: 'R15',
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

/** What this queue in particular could get wrong. */
export const OWN: readonly Mutant[] = [
  {
    name: 'a dead process keeps its row',
    promise: 'P1',
    edits: [sql('is_gone', '  DELETE FROM @schema@.processes p WHERE p.process_id = _process_id;\n', '')],
    tests: ['store/rescue'],
  },
  {
    name: 'a lease renewed after its end',
    promise: 'P1',
    edits: [source('store/process', ' AND expires_at > clock_timestamp() RETURNING', ' RETURNING')],
    tests: ['store/rescue'],
  },
  {
    name: 'a claim by a process whose lease has ended',
    promise: 'P1',
    edits: [sql('claim', ' AND p.expires_at > clock_timestamp();', ';')],
    tests: ['store/rescue'],
  },
  {
    name: 'suspects in company',
    promise: 'R10',
    edits: [
      sql(
        'claim',
        '_taken := greatest(coalesce(array_position(_suspects, true), cardinality(_ids) + 1) - 1, 1);',
        '_taken := cardinality(_ids);',
      ),
    ],
    tests: ['store/rescue'],
  },
  {
    name: 'crashes not counted',
    promise: 'R10',
    edits: [sql('claim', 'crashes = j.crashes + r.rescued::integer', 'crashes = j.crashes')],
    tests: ['store/rescue'],
  },
  {
    name: 'pushes that wake nobody',
    promise: 'P8',
    edits: [
      sql(
        'wake',
        'IF NOT _always AND (CASE WHEN pg_try_advisory_lock(_class, _queue_id) THEN pg_advisory_unlock(_class, _queue_id) ELSE false END) THEN',
        'IF NOT _always THEN',
      ),
    ],
    tests: ['store/wake'],
  },
  {
    name: 'death of the highest score',
    promise: 'R7',
    edits: [sql('bury_lowest', 'ORDER BY p.score, p.seq LIMIT 1', 'ORDER BY p.score DESC, p.seq LIMIT 1')],
    tests: ['store/failure'],
  },
  {
    name: 'a requeued job keeps its count',
    promise: 'R5',
    edits: [
      sql(
        'requeue',
        'perform_in = clock_timestamp(), retry_count = -1, ',
        'perform_in = clock_timestamp(), ',
      ),
    ],
    tests: ['admin/morgue'],
  },
  {
    name: 'completion beside the handler’s transaction',
    promise: 'P3',
    edits: [source('worker/batch', 'queueId: served.queueId, tx: client }', 'queueId: served.queueId }')],
    tests: ['worker/transactional'],
  },
  {
    name: 'no abort at the end of a lease',
    promise: 'P1',
    edits: [
      source(
        'worker/worker',
        `    this.#running.abortAll(new GivenBack('the lease of this process ends'))\n`,
        '',
      ),
    ],
    tests: ['worker/lease'],
  },
  {
    name: 'a shard let go during its batch',
    promise: 'P1',
    edits: [source('worker/dealer', 'if (shard.leaving && !shard.busy)', 'if (shard.leaving)')],
    tests: ['worker/splitter'],
  },
]

export const MUTANTS: readonly Mutant[] = [...CLASSIC, ...OWN]
