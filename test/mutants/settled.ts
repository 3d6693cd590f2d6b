import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with outcomes that are stored together, kept and tried again. */
export const SETTLED: readonly Mutant[] = [
  {
    name: 'a held outcome forgotten',
    promise: 'P3',
    breaks: 'A round whose row a producer held is never ended, and its id never served again.',
    edits: [source('worker/settling/completer', '    this.#kept.add(piece)\n', '')],
    tests: ['worker/time'],
  },
  {
    name: 'outcomes that only ever skip',
    promise: 'P8',
    breaks: 'An id that is pushed without pause is performed once, and its outcome is never stored.',
    edits: [source('worker/settling/kept', 'const SKIPS = 2', 'const SKIPS = Number.POSITIVE_INFINITY')],
    tests: ['worker/busy-id'],
  },
  {
    name: 'a claim with a bad value takes the others along',
    promise: 'P7',
    breaks: 'One client that acknowledges what can be no id keeps all others from settling anything.',
    edits: [source('gathered', 'sent.length > 1 && this.#isOnesOwn(error)', 'false')],
    tests: ['postgres/encoding'],
  },
  {
    name: 'a lane that fails takes the others along',
    promise: 'P7',
    breaks: 'One shard that can’t be claimed keeps a process from claiming anything.',
    edits: [
      source(
        'worker/settling/batcher',
        'claims.length + outcomes.length === 1 || isConnectionFailure(error)',
        'true',
      ),
    ],
    tests: ['worker/prefetch'],
  },
  {
    name: 'a small call that waits for a slow one',
    promise: 'P7',
    breaks: 'A call that takes long holds up all claims of its process.',
    edits: [source('worker/settling/batcher', 'this.#quickCalls.size > 0', 'this.#calls > 0')],
    tests: ['worker/batcher'],
  },
  {
    name: 'deaths that go with all else',
    promise: 'P7',
    breaks: 'A row of the morgue in somebody’s open transaction holds up all that a worker does.',
    edits: [source('worker/settling/piece', `['die', ['die']]`, `['fail', ['die']]`)],
    tests: ['worker/p7-deaths'],
  },
  {
    name: 'deaths that stay together',
    promise: 'R7',
    breaks: 'One row of the morgue that stays locked keeps all other deaths of its queue from being stored.',
    edits: [
      source(
        'worker/settling/kept',
        `buries(piece) && !alone && waits === 0`,
        `buries(piece) && !alone && waits >= 0`,
      ),
    ],
    tests: ['worker/completer', 'worker/p7-deaths'],
  },
  {
    name: 'what was refused goes with the others again',
    promise: 'P3',
    breaks: 'One outcome that can’t be stored keeps all others of its process from being stored.',
    edits: [source('worker/settling/completer', 'alone: true, skips: 0', 'skips: 0')],
    tests: ['worker/completer'],
  },
  {
    name: 'no word to whom has the shard by now',
    promise: 'P8',
    breaks: 'What fails after its shard has gone to another process waits for the next full look there.',
    edits: [
      source('worker/settling/observer', 'if (others.length === 0) return', 'if (others.length >= 0) return'),
    ],
    tests: ['worker/completer'],
  },
  {
    name: 'a discard that completes what it could not bury',
    promise: 'P6',
    breaks: 'Payloads of a round that another process has by now are neither done nor in the morgue.',
    edits: [
      sql(
        'discard',
        'SELECT array_agg(h.place) INTO _places',
        'SELECT array_agg(h.place) FILTER (WHERE h.place > 1) INTO _places',
      ),
      sql('discard', 'ARRAY(SELECT _ids[p] FROM unnest(_places) p)', '_ids'),
      sql('discard', 'ARRAY(SELECT _queue_ids[p] FROM unnest(_places) p)', '_queue_ids'),
      sql('discard', 'ARRAY(SELECT _fences[p] FROM unnest(_places) p)', '_fences'),
    ],
    tests: ['store/discard', 'model/model'],
  },
  {
    name: 'a discard of what was pushed meanwhile',
    promise: 'P5',
    breaks: 'A payload that no handler has seen goes to the morgue.',
    edits: [sql('discard', '_fences[h.place]) p', '_fences[h.place] + 1) p')],
    tests: ['store/discard', 'model/model'],
  },
  {
    name: 'a discard of the whole set though the round took a part',
    promise: 'P3',
    breaks: 'Payloads that no handler has seen go to the morgue.',
    edits: [sql('discard', 'WHERE _cut_seqs[h.place] IS NULL OR', 'WHERE true OR')],
    tests: ['store/discard', 'model/model'],
  },
  {
    name: 'a refused payload that takes those behind it along',
    promise: 'P3',
    breaks: 'What stands behind a payload that the schema refuses is completed, and no handler has seen it.',
    edits: [
      source(
        'store/claim',
        'cut: { score: round.scores[count - 1]!, seq: round.seqs![count - 1]! }',
        'cut: round.cut',
      ),
    ],
    tests: ['worker/schema'],
  },
  {
    name: 'a refused payload that is tried again',
    promise: 'R7',
    breaks: 'A payload that no handler will ever get keeps those behind it waiting.',
    edits: [
      source(
        'worker/performing/acceptance',
        "end: 'die', error: describe(thrown), retryIn: null",
        "end: 'fail', error: describe(thrown), retryIn: 60",
      ),
    ],
    tests: ['worker/schema'],
  },
  {
    name: 'a snooze that uses up a retry',
    promise: 'R6',
    breaks: 'A job that waits for something dies of waiting.',
    edits: [
      sql(
        'fail_claims',
        'WHEN _errors[r.place] IS NULL THEN j.retry_count ELSE',
        'WHEN false THEN j.retry_count ELSE',
      ),
    ],
    tests: ['store/failure', 'worker/ending'],
  },
]
