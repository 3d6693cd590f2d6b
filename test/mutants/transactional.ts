import { type Mutant, source } from './mutant.ts'

/** Mistakes that this queue in particular could make, in handlers’ transactions. */
export const TRANSACTIONAL: readonly Mutant[] = [
  {
    name: 'no pause where transactions can’t begin',
    promise: 'P8',
    breaks: 'Where the server has no connection left, claims and releases follow each other without a pause.',
    edits: [source('worker/schedule/admission', 'until: last ? at + this.#pause : 0', 'until: 0')],
    tests: ['worker/transactional'],
  },
  {
    name: 'completion beside the handler’s transaction',
    promise: 'P3',
    breaks: 'The completion holds even where the handler’s writes are rolled back.',
    edits: [
      source(
        'worker/performing/transaction',
        'settleThrough(database, on, holder,',
        'settleThrough(database, { casts: on.casts, run: (text, values) => database.query(text, [...values]) }, holder,',
      ),
    ],
    tests: ['worker/p3-commit', 'worker/transactional'],
  },
  {
    name: 'a transaction that is refused performed for ever',
    promise: 'R6',
    breaks:
      'A handler that violates a deferred constraint runs a hundred times a second, and no failure is counted.',
    edits: [
      source(
        'worker/performing/transaction',
        `return step === 'completion' && isRefusedLock(error) ? AGAIN : { kind: 'refused', error }`,
        'return AGAIN',
      ),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'a session that the server ended taken for one that broke',
    promise: 'R6',
    breaks: 'A handler that outlives the server’s time-outs for transactions runs again and again.',
    edits: [
      source(
        'worker/performing/transaction',
        'if (hasCode(lost, ...TIMED_OUT)) {',
        'if (false as boolean) {',
      ),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'an aborted transaction fails its batch for all',
    promise: 'R9',
    breaks:
      'A statement whose error a handler swallows sends nine innocent jobs to the morgue with the one at fault.',
    edits: [
      source(
        'worker/performing/transaction',
        `    throw new Error(\`the handler left its transaction aborted: \${error.message}\`, { cause: error })`,
        "    throw new Rollback({ kind: 'failed', failed: failAll(performance.rounds, error) })",
      ),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'a lost connection that counts nothing',
    promise: 'R10',
    breaks:
      'A handler that gets its backend killed, and swallows what it hears, runs a hundred times a second for ever.',
    edits: [
      source(
        'worker/performing/batch',
        'settler.crashed(claimant, rounds)',
        'settler.settle(claimant, { completed: [], failed: [], released: rounds }, true)',
      ),
    ],
    tests: ['worker/lost-connection'],
  },
  {
    name: 'a lost connection that the handler threw taken for its failure',
    promise: 'R10',
    breaks: 'A restart of the server sends payloads that have done nothing wrong to the morgue.',
    edits: [
      source(
        'worker/performing/transaction',
        'throw await reasonFor(lent, failed, performance)',
        `throw new Rollback({ kind: 'failed', failed })`,
      ),
    ],
    tests: ['worker/lost-connection'],
  },
  {
    name: 'a crash not counted for a row that comes free',
    promise: 'R10',
    breaks: 'A row that came free meanwhile is released without its crash.',
    edits: [source('store/settle', 'places.map((place) => rounds[place - 1]!)', 'rounds')],
    tests: ['store/settle-interleaving'],
  },
  {
    name: 'one id fails its batch’s commit for all',
    promise: 'R9',
    breaks: 'Jobs that have done nothing wrong fail with one that has, and die with it.',
    edits: [
      source(
        'worker/performing/batch',
        '  } else if (rounds.length > 1) return { parts: halves(rounds), unbegun: undefined }\n  else',
        '  } else',
      ),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'parts of a batch performed with what the handler left of it',
    promise: 'P3',
    breaks: 'A payload that the first run has changed or taken is stored wrong, or dies as none.',
    edits: [
      source(
        'worker/performing/performer',
        'rounds.map((round) => this.#load(lane, claimant, round))',
        'rounds.map(async (round) => this.#options.mayBegin(lane, claimant.processId) && { ...round })',
      ),
      source('worker/performing/performer', 'round !== undefined)', '!!round)'),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'a session lent to handlers as the last one left it',
    promise: 'P3',
    breaks: 'A handler works under the role, search_path and time-outs that another one has set.',
    edits: [
      source('postgres/database', `lends && this.#lent.has(client) ? renewalOf(client) : ''`, `''`),
      source('postgres/database', `import { renewalOf } from './session.ts'\n`, ''),
    ],
    tests: ['worker/lent-session'],
  },
  {
    name: 'a completion in the handler’s encoding',
    promise: 'P3',
    breaks: 'The ids that are completed are those whose bytes look the same: somebody else’s.',
    edits: [
      source(
        'store/handler-transaction',
        `,\n      pg_catalog.set_config('client_encoding', 'UTF8', true)`,
        '',
      ),
    ],
    tests: ['worker/transactional'],
  },
  {
    name: 'a COMMIT that a library takes for done',
    promise: 'P3',
    breaks:
      'A handler’s transaction was rolled back unheard, and its job is in work for as long as the process lives.',
    edits: [
      source(
        'worker/performing/application-transaction',
        'await this.#requireCommit(number!, error)',
        'if (error) throw error',
      ),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'a library that swallows what its transaction’s work throws',
    promise: 'R6',
    breaks: 'A failed handler counts as one that was committed.',
    edits: [
      source(
        'worker/performing/application-transaction',
        '      const result = await worked\n',
        "      if (!(await settles(worked))) return { kind: 'again', uncertain: false } as T\n      const result = await worked\n",
      ),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'a handler in a transaction of another database',
    promise: 'P3',
    breaks: 'It writes where nobody looks for it, before its completion is refused.',
    edits: [
      source('worker/performing/application-transaction', 'if (home) {', 'if (home && (false as boolean)) {'),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'a handler at REPEATABLE READ',
    promise: 'P5',
    breaks: 'Its completion decides on what the transaction saw when it began.',
    edits: [source('worker/performing/application-transaction', '    requireFitting(begun)\n', '')],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'an aborted handler whose statement goes on',
    promise: 'R16',
    breaks: 'A statement that never ends holds its slot after the timeout.',
    edits: [
      source(
        'worker/performing/application-transaction',
        '    attempt()\n    this.#canceling ??= setInterval(attempt, CANCEL_PAUSE)\n',
        '    void attempt\n    void CANCEL_PAUSE\n',
      ),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'the completion’s time-outs for the checks of a COMMIT',
    promise: 'R6',
    breaks: 'A deferred constraint that waits for a lock of the application’s fails its handler.',
    edits: [source('store/settle', 'index === calls.length - 1 ? settings : undefined', 'undefined')],
    tests: ['adapters/performing'],
  },
  {
    name: 'a COMMIT that a handler sends',
    promise: 'P3',
    breaks: 'A library that is given the client commits half of what the handler does.',
    edits: [source('worker/performing/own-transaction', ' : endsTransaction(values[0]) ? kept()', '')],
    tests: ['worker/lent-transaction'],
  },
  {
    name: 'an end of its own that is not told beside what a handler throws',
    promise: 'R6',
    breaks:
      'Nobody learns that what a failed handler wrote is committed, and is written once more with each retry.',
    edits: [source('worker/performing/transaction', 'isOurs ? failed : withEnd(failed)', 'failed')],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'a completion in whatever transaction the connection is in by now',
    promise: 'P3',
    breaks:
      'A library that goes on in another session loses a job: it’s completed without what its handler wrote.',
    edits: [
      source(
        'store/through',
        `pg_catalog.current_setting('lockstep.round', true) =`,
        `pg_catalog.current_setting('lockstep.round', true) IS NOT NULL OR true OR '' =`,
      ),
    ],
    tests: ['store/settle-through'],
  },
  {
    name: 'a transaction that begins after it was given up',
    promise: 'P1',
    breaks: 'A handler begins when its jobs are released: beside another one.',
    edits: [
      source(
        'worker/performing/application-transaction',
        'if (this.#isLate) throw',
        'if (false as boolean) throw',
      ),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'a failure of a library after its COMMIT taken for one of the round',
    promise: 'P3',
    breaks: 'What was done exactly once is reported as refused.',
    edits: [
      source(
        'worker/performing/application-transaction',
        "if (state !== 'committed') throw",
        'if (error) throw error\n    if (state !== "committed") throw',
      ),
    ],
    tests: ['worker/application-transaction'],
  },
  {
    name: 'an end of a postgres.js transaction whose connection is lost',
    promise: 'P3',
    breaks: 'Its COMMIT or ROLLBACK ends the process, or the transaction of whoever has the connection next.',
    edits: [
      source('adapters/postgres-js-pool', 'if (!loss.error) resolve()', 'resolve()'),
      source(
        'adapters/postgres-js-pool',
        'if (!loss.error && !hasBroken(error)) reject(error)',
        'reject(error)',
      ),
    ],
    tests: ['adapters/postgres-js.slow'],
  },
  {
    name: 'a statement after the connection of postgres.js is lost',
    promise: 'P3',
    breaks: 'It ends the process, or takes effect by itself.',
    edits: [source('adapters/postgres-js-pool', 'if (loss.error)', 'if (false as boolean)')],
    tests: ['adapters/postgres-js.slow'],
  },
]
