import { type Mutant, source } from './mutant.ts'

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
    edits: [
      source('worker/settling/completer', `this.#handIn('die', claimant`, `this.#handIn('fail', claimant`),
    ],
    tests: ['worker/p7-deaths'],
  },
  {
    name: 'deaths that stay together',
    promise: 'R7',
    breaks: 'One row of the morgue that stays locked keeps all other deaths of its queue from being stored.',
    edits: [
      source(
        'worker/settling/kept',
        `kind === 'die' && !alone && waits === 0`,
        `kind === 'die' && !alone && waits >= 0`,
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
]
