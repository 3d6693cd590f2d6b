import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes of results. */
export const RESULTS: readonly Mutant[] = [
  {
    name: 'a result of a claim that is lost',
    promise: 'P6',
    breaks: 'Who waits is told what a worker returned that others have overtaken, while they still work.',
    edits: [sql('keep_results', 'r.place = ANY (_places) AND ', '')],
    tests: ['worker/results'],
  },
  {
    name: 'a completion of a row that came free after its result was left out',
    promise: 'P3',
    breaks: 'The job is done, and who waits for its result never gets one.',
    edits: [
      sql(
        'complete_with_results',
        '  _our_queue_ids := ARRAY(SELECT _queue_ids[p] FROM unnest(_places) p);',
        '  _places := ARRAY(SELECT p::integer FROM generate_subscripts(_ids, 1) p); _our_queue_ids := _queue_ids;',
      ),
    ],
    tests: ['store/results'],
  },
  {
    name: 'the result of a round that left payloads behind',
    promise: 'P2',
    breaks: 'Who pushed the last of many is answered before it was handed over.',
    edits: [sql('keep_results', ' AND r.cut_seq IS NULL', '')],
    tests: ['worker/results', 'consumer/results'],
  },
  {
    name: 'a death that a later result hides',
    promise: 'R7',
    breaks: 'Whose payload died is told what a later round returned.',
    edits: [sql('result', "WHEN m.died_at IS NOT NULL THEN 'dead'\n", '')],
    tests: ['worker/results'],
  },
  {
    name: 'an older death',
    promise: 'R7',
    breaks: 'Who pushes once more what died before is told at once that it is dead.',
    edits: [
      sql('result', 't.died_at >= @schema@.from_micros(_parts[2]::bigint)', 'true'),
      sql('result', 'AND t.pushed_before - 1', 'AND 9223372036854775807'),
    ],
    tests: ['worker/results'],
  },
  {
    name: 'an older death with a higher fence',
    promise: 'R18',
    breaks: 'After a restore, who pushes once more what died before is told at once that it is dead.',
    edits: [sql('result', 't.died_at >= @schema@.from_micros(_parts[2]::bigint)', 'true')],
    tests: ['store/results'],
  },
  {
    name: 'the death of an equal payload in the round that was in work',
    promise: 'P5',
    breaks: 'A push that waited for the next round is told, for good, that it died.',
    edits: [sql('result', 'AND t.pushed_before - 1', 'AND 9223372036854775807')],
    tests: ['store/results'],
  },
  {
    name: 'the death of an equal payload after the result',
    promise: 'R18',
    breaks: 'Whose round has ended with success is told that it died.',
    edits: [
      sql(
        'result',
        '(k.fence IS NULL OR coalesce(t.pushed_before < k.fence, t.died_at < k.ended_at))',
        'true',
      ),
    ],
    tests: ['store/results'],
  },
  {
    name: 'a kill of what waits behind a round that counts for the round',
    promise: 'R11',
    breaks: 'Whose payload is in work, or waits to be tried again, is told that it was killed.',
    edits: [sql('kill', 'g.since, _fence', 'NULL, _fence')],
    tests: ['store/results'],
  },
  {
    name: 'the fence of a kill drawn before it has the rows',
    promise: 'R11',
    breaks: 'A push that the kill has waited for is killed, and told that nothing is known of it.',
    edits: [
      sql('kill', "    nextval('@schema@.fences')\n", '    _fence\n'),
      sql('kill', '  _fence bigint;', "  _fence bigint := nextval('@schema@.fences');"),
    ],
    tests: ['store/results'],
  },
  {
    name: 'a push into a job in work that waits for the round in work',
    promise: 'P5',
    breaks: 'It is answered with a result that knows nothing of it.',
    edits: [sql('result', 't.fence > _parts[1]::bigint', 't.fence >= _parts[1]::bigint')],
    tests: ['worker/results'],
  },
  {
    name: 'the fence of its row as the round of a push',
    promise: 'P5',
    breaks: 'A push that waited for its row is answered with the result of a round that ended meanwhile.',
    edits: [
      sql(
        'round_of',
        'f.last_value',
        '(SELECT j.fence FROM @schema@.jobs j JOIN @schema@.queues q USING (queue_id) WHERE q.name = round_of.queue AND j.id = round_of.id)',
      ),
    ],
    tests: ['store/results'],
  },
  {
    name: 'results that are not in the completion’s call',
    promise: 'P3',
    breaks: 'The handler has returned, and its result is forgotten.',
    edits: [source('worker/settling/piece', "completed[0]?.kept ? 'answer' : 'complete'", "'complete'")],
    tests: ['worker/results'],
  },
]
