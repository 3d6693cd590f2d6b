import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes that this queue in particular could make, in Postgres. */
export const STORED: readonly Mutant[] = [
  {
    name: 'a fence counted from those before',
    promise: 'P6',
    breaks: 'A job finished and pushed anew gets the fences of its past again, and old claims fit.',
    edits: [
      sql(
        'claim',
        `    _fence := nextval('@schema@.fences');\n`,
        '    _fence := (SELECT max(j.fence) + 1 FROM @schema@.jobs j WHERE j.ctid = ANY (_tids));\n',
      ),
    ],
    tests: ['store/fence'],
  },
  {
    name: 'a fence below those of its rows',
    promise: 'P3',
    breaks:
      'After a restore without its sequence, a round finds no payloads, and its job is deleted as done.',
    edits: [sql('claim', 'IF _fence <= _highest THEN', 'IF false THEN')],
    tests: ['store/fence'],
  },
  {
    name: 'a claim that keeps the mark of the next round',
    promise: 'P3',
    breaks: 'A rescued round takes what was pushed meanwhile, and is followed by an empty one.',
    edits: [sql('claim', '        next_perform_in = NULL, crashes', '        crashes', 2)],
    tests: ['store/rescue'],
  },
  {
    name: 'a claim that waits for producers',
    promise: 'P7',
    breaks: 'A transaction of the application’s left open holds up a slot.',
    edits: [sql('claim', '    FOR UPDATE SKIP LOCKED\n', '    FOR UPDATE\n')],
    tests: ['store/held-up.slow'],
  },
  {
    name: 'a claim that does not tell what it passed over',
    promise: 'P8',
    breaks: 'An id that is pushed without pause is never performed in a lane with others that are.',
    edits: [sql('claim', `t.n IS NULL OR w.after_id = ''`, 't.n IS NULL', 2)],
    tests: ['worker/busy-id'],
  },
  {
    name: 'a claim that does not wait',
    promise: 'P8',
    breaks: 'The claim that was to have a row which is always locked skips it, too.',
    edits: [sql('wait_for', '  ORDER BY j.id FOR UPDATE;', '  ORDER BY j.id FOR UPDATE SKIP LOCKED;')],
    tests: ['worker/busy-id'],
  },
  {
    name: 'a completion that waits for producers',
    promise: 'P7',
    breaks: 'A producer that pushes into a job in work and stays open holds up its slot.',
    edits: [sql('lock_claims', '  IF _wait THEN\n', '  IF true THEN\n')],
    tests: ['store/settle-interleaving'],
  },
  {
    name: 'a completion that deletes all payloads',
    promise: 'P5',
    breaks: 'What was pushed while the id was in work goes with what was performed.',
    edits: [sql('complete', 't.job_id = r.id AND t.fence < r.fence\n', 't.job_id = r.id\n')],
    tests: ['store/next-round'],
  },
  {
    name: 'payloads found by their ctid alone',
    promise: 'P3',
    breaks:
      'In tables partitioned by queue, a completion deletes what lies at the same place of another queue.',
    edits: [
      sql(
        'complete',
        'WHERE p.queue_id + 0 = _queue_ids[1] AND p.ctid = ANY (_tids)',
        'WHERE p.ctid = ANY (_tids)',
      ),
    ],
    tests: ['store/partitioned'],
  },
  {
    name: 'the next job to come as of the lane before',
    promise: 'P7',
    breaks: 'A lane that gave nothing is not looked at again when its next job is due.',
    edits: [sql('claim', ' AS n OFFSET 0) t ON _places[t.n] = w.place', ' AS n OFFSET 0) t ON true')],
    tests: ['store/exchange'],
  },
  {
    name: 'jobs of several queues claimed by their ctids alone',
    promise: 'P1',
    breaks:
      'In tables partitioned by queue, a claim of two queues takes what lies at the same places of each.',
    edits: [
      sql('claim', 'WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid', 'WHERE j.ctid = r.tid'),
    ],
    tests: ['store/partitioned'],
  },
  {
    name: 'equal payloads of two rounds fold into the largest score',
    promise: 'R4',
    breaks: 'A payload of a failed round loses its place to an equal one pushed meanwhile.',
    edits: [
      sql(
        'payloads_of_round',
        'ORDER BY p.has_expired, p.digest, p.score, p.seq\n',
        'ORDER BY p.has_expired, p.digest, p.score DESC, p.seq\n',
      ),
      source(
        'store/claim',
        'of inOrder(stored)',
        'of inOrder(stored).filter(({ payload }, at, all) => !all.slice(at + 1).some((one) => one.payload === payload))',
      ),
    ],
    tests: ['store/next-round'],
  },
  {
    name: 'suspects in company',
    promise: 'R10',
    breaks: 'A job that kills its process takes innocent ones with it, and their crashes count too.',
    edits: [sql('claim', 'WHERE s.nth = 1 OR NOT s.suspect;', ';')],
    tests: ['store/rescue'],
  },
  {
    name: 'crashes not counted',
    promise: 'R10',
    breaks: 'A poisonous job takes the fleet down for ever.',
    edits: [
      sql('claim', 'crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer', 'crashes = j.crashes', 2),
    ],
    tests: ['store/rescue'],
  },
  {
    name: 'a push that hastens what waits',
    promise: 'R2',
    breaks: 'A push undoes the pause after a failure, or a time that was chosen.',
    edits: ['enqueue', 'put_jobs'].flatMap((name) => [
      sql(
        name,
        'next_perform_in = CASE WHEN j.claimed_by IS NOT NULL THEN coalesce(j.next_perform_in, excluded.perform_in) END,',
        `perform_in = CASE WHEN j.claimed_by IS NULL THEN least(j.perform_in, excluded.perform_in) ELSE j.perform_in END,
        next_perform_in = CASE WHEN j.claimed_by IS NOT NULL THEN coalesce(j.next_perform_in, excluded.perform_in) END,`,
      ),
    ]),
    tests: ['store/merge'],
  },
  {
    name: 'now is when the transaction began',
    promise: 'P2',
    breaks: 'All pushes of one transaction have one score, and lie before what others pushed meanwhile.',
    edits: [
      sql(
        'put_jobs',
        'coalesce(i.score, extract(epoch FROM clock_timestamp())',
        'coalesce(i.score, extract(epoch FROM now())',
        2,
      ),
      sql(
        'enqueue',
        'coalesce(_score, extract(epoch FROM clock_timestamp())',
        'coalesce(_score, extract(epoch FROM now())',
        4,
      ),
    ],
    tests: ['enqueue/defaults'],
  },
  {
    name: 'a job that came after its queue was looked for',
    promise: 'P1',
    breaks: 'A payload goes under a fence that is in work already, unread, and the completion deletes it.',
    edits: [sql('enqueue', ' FOR NO KEY UPDATE\n', '\n')],
    tests: ['interleaving/unknown-queue'],
  },
  {
    name: 'a round that came after its queue was looked for, and is not followed',
    promise: 'P5',
    breaks:
      'A completion deletes the job, and the payload pushed meanwhile waits for the next push of the id.',
    edits: [sql('enqueue', 'IF NOT _is_marked', 'IF false')],
    tests: ['interleaving/unknown-queue'],
  },
  {
    name: 'new jobs of a bulk before those that wait',
    promise: 'P4',
    breaks:
      'A bulk push holds a new job while it waits for one before it: a deadlock with a push in the right order.',
    edits: [
      sql(
        'put_jobs',
        '  WITH input AS (',
        `  INSERT INTO @schema@.jobs (queue_id, shard, lane, perform_in, id, fence)
  SELECT _queue_id, @schema@.shard_of(i.id, _shards), coalesce(i.lane, 0::smallint),
    coalesce(i.perform_in, clock_timestamp()), i.id, _fence
  FROM unnest(_ids, _perform_ins, _lanes) AS i(id, perform_in, lane) ORDER BY i.id COLLATE "C"
  ON CONFLICT (queue_id, id) DO NOTHING;
  WITH input AS (`,
      ),
    ],
    tests: ['store/producers'],
  },
  {
    name: 'bulk pushes in the order given',
    promise: 'P4',
    breaks: 'Two bulk pushes of the same ids lock them in opposite order: a deadlock, and one of them fails.',
    edits: [sql('put_jobs', '    FROM input i\n', '    FROM input i ORDER BY i.position\n')],
    tests: ['store/producers'],
  },
  {
    name: 'rounds in any isolation level',
    promise: 'P3',
    breaks: 'Under one snapshot a claim misses payloads that its completion deletes.',
    edits: [
      sql('require_read_committed', `current_setting('transaction_isolation') <> 'read committed'`, 'false'),
    ],
    tests: ['store/isolation'],
  },
  {
    name: 'pushes that wake nobody',
    promise: 'P8',
    breaks: 'A job waits for the next poll while all slots sleep.',
    edits: [sql('has_listener', 'RETURN NOT CASE', 'RETURN CASE WHEN true THEN false')],
    tests: ['store/wake'],
  },
  {
    name: 'pushes that always notify',
    promise: 'P7',
    breaks: 'Commits queue up behind each other though no worker waits to be told.',
    edits: [sql('has_listener', 'RETURN NOT CASE', 'RETURN CASE WHEN true THEN true')],
    tests: ['store/wake'],
  },
  {
    name: 'a wake-up whatever the notification queue',
    promise: 'P7',
    breaks: 'A session that listens and never reads makes the commits of producers fail.',
    edits: [sql('wake', 'IF pg_notification_queue_usage() < 0.5 THEN', 'IF true THEN')],
    tests: ['store/p7-notification-queue'],
  },
  {
    name: 'death of the highest score',
    promise: 'R7',
    breaks: 'Payloads go to the morgue in the wrong order, those that never failed first.',
    edits: [sql('bury_failed', 'ORDER BY p.score, p.seq LIMIT 1', 'ORDER BY p.score DESC, p.seq LIMIT 1')],
    tests: ['store/failure'],
  },
  {
    name: 'a death that takes equal pushes along',
    promise: 'P5',
    breaks: 'A payload pushed while its equal died in work is deleted, and never performed.',
    edits: [
      sql(
        'bury_failed',
        't.job_id = _ids[l.place] AND t.fence < _fences[l.place] AND t.digest',
        't.job_id = _ids[l.place] AND t.digest',
      ),
    ],
    tests: ['store/failure'],
  },
  {
    name: 'a requeued job keeps its count',
    promise: 'R5',
    breaks: 'What comes back from the morgue dies again at its first failure.',
    edits: [
      sql(
        'requeue',
        'perform_in = clock_timestamp(), retry_count = -1, ',
        'perform_in = clock_timestamp(), ',
      ),
    ],
    tests: ['admin/morgue'],
  },
]
