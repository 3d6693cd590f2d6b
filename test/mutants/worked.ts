import { type Mutant, source } from './mutant.ts'

/** Mistakes that this queue in particular could make, in workers and producers. */
export const WORKED: readonly Mutant[] = [
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
        'queueId: served.queueId, tx: client }',
        'queueId: served.queueId }',
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
        'completer.crashed(claimant, rounds)',
        'completer.settle(claimant, { completed: [], failed: [], released: rounds }, true)',
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
        'throw await reasonFor(database, client, failed, course, performance)',
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
        '  } else if (rounds.length > 1) return { parts: halves(rounds), begun: true }\n  else',
        '  } else',
      ),
    ],
    tests: ['worker/refused-commit'],
  },
  {
    name: 'a job that was asked for a moment too early waits as if its row were locked',
    promise: 'P8',
    breaks:
      'A job starts milliseconds late if the clocks of the server and the worker differ by a fraction of one.',
    edits: [source('worker/schedule/lane', 'head <= this.#claimedAt - BARELY_DUE', 'head <= now')],
    tests: ['worker/timetable'],
  },
  {
    name: 'the last answer alone tells the server’s clock',
    promise: 'P8',
    breaks: 'After one slow answer, jobs start late, or are asked for in vain.',
    edits: [
      source('worker/schedule/server-clock', 'Math.max(lowest, this.#known.lowest - drift)', 'lowest'),
      source('worker/schedule/server-clock', 'Math.min(highest, this.#known.highest + drift)', 'highest'),
    ],
    tests: ['worker/server-clock'],
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
    name: 'no look at the lease before the handler',
    promise: 'P1',
    breaks: 'A process that stood still for longer than its lease begins a batch that others have by now.',
    edits: [source('worker/performing/perform', 'if (holdsLease()) return', 'if (true as boolean) return')],
    tests: ['worker/p1-last-look'],
  },
  {
    name: 'quiet before the start has ended',
    promise: 'R15',
    breaks: 'A worker locks its shards after it was told to be quiet, and nobody serves them.',
    edits: [
      source(
        'worker/worker',
        `    await this.#started?.catch(() => {})\n    if (this.#state !== 'running') return`,
        `    if (this.#state !== 'running') return`,
      ),
    ],
    tests: ['worker/stop'],
  },
  {
    name: 'no abort at the end of a lease',
    promise: 'P1',
    breaks: 'Handlers are not told that others may have their ids.',
    edits: [
      source(
        'worker/engine',
        `    this.inFlight.abortAll(new Released('the lease of this process ends'))\n`,
        '',
      ),
    ],
    tests: ['worker/lease'],
  },
  {
    name: 'a lost answer shrugged off',
    promise: 'P3',
    breaks: 'What a claim took whose answer was lost stays claimed as long as the process lives.',
    edits: [
      source('worker/performing/executor', '    if (isConnectionFailure(error)) await onLostAnswer()\n', ''),
    ],
    tests: ['worker/lease'],
  },
  {
    name: 'claims that only ever skip',
    promise: 'P8',
    breaks: 'An id that is pushed without pause is never performed.',
    edits: [source('worker/schedule/lane', 'const PASSES = 2', 'const PASSES = Number.POSITIVE_INFINITY')],
    tests: ['worker/busy-id'],
  },
  {
    name: 'news during a claim forgotten',
    promise: 'P8',
    breaks: 'A job pushed while a claim is under way waits for the next full look.',
    edits: [source('worker/schedule/lane', '    this.#heard = Math.min(this.#heard, performIn)\n', '')],
    tests: ['worker/timetable'],
  },
  {
    name: 'no regular full look',
    promise: 'P3',
    breaks: 'What was committed late and what dead processes left is never found.',
    edits: [
      source(
        'worker/discovery/poller',
        'this.#nextFullScan = startedAt + poll',
        'this.#nextFullScan = Number.POSITIVE_INFINITY',
      ),
    ],
    tests: ['worker/p3-full-look'],
  },
  {
    name: 'prefetched jobs kept of a shard that goes',
    promise: 'P8',
    breaks: 'Who takes the shard passes them over until the slots here come to them.',
    edits: [source('worker/assignment/holdings', 'await onDropped(held)', 'void onDropped')],
    tests: ['worker/prefetch'],
  },
  {
    name: 'a shard that goes before what was prefetched of it waits again',
    promise: 'P8',
    breaks: 'Who takes the shard begins hundreds of jobs that are due later than those.',
    edits: [source('worker/assignment/holdings', 'await onDropped(held)', 'void onDropped(held)')],
    tests: ['worker/prefetch'],
  },
  {
    name: 'two claims of a lane at once',
    promise: 'P8',
    breaks: 'What the second one brings is due after what the first one has not brought yet.',
    edits: [
      source(
        'worker/performing/executor',
        'joined = lane.claim',
        'joined = undefined as Promise<void> | undefined',
      ),
    ],
    tests: ['worker/side-by-side'],
  },
  {
    name: 'a claim while something goes back',
    promise: 'P8',
    breaks: 'It passes over what goes back, and brings what is due later.',
    edits: [source('worker/performing/executor', '      while (lane.returned) await lane.returned\n', '')],
    tests: ['worker/side-by-side'],
  },
  {
    name: 'what a claim brings while something goes back begins',
    promise: 'P8',
    breaks: 'It is due later than what went back.',
    edits: [source('worker/performing/executor', 'lane.isAhead || ', '')],
    tests: ['worker/executor', 'worker/side-by-side'],
  },
  {
    name: 'a portion goes back alone',
    promise: 'P8',
    breaks: 'What is due after it is prefetched, and begins first.',
    edits: [
      source('worker/schedule/lane', 'this.#portions.slice(this.#portions.indexOf(portion))', '[portion]'),
    ],
    tests: ['worker/timetable', 'worker/side-by-side'],
  },
  {
    name: 'a lane that wakes nobody',
    promise: 'P8',
    breaks: 'A job waits for the next look while slots sleep.',
    edits: [
      source(
        'worker/schedule/timetable',
        '    if (this.#sleeping.size > 0 && isOpen(lane) && lane.isReady) this.#wakeFor(lane)\n',
        '',
      ),
    ],
    tests: ['worker/timetable'],
  },
  {
    name: 'looks that start at the cursor',
    promise: 'P8',
    breaks: 'What a longer transaction has pushed waits for the next full look.',
    edits: [source('worker/discovery/poller', 'cursor: lane.before(span)', 'cursor: lane.cursor')],
    tests: ['worker/lateness'],
  },
  {
    name: 'a look that asks for what is passed over',
    promise: 'P7',
    breaks: 'A row that stays locked is claimed in vain every few milliseconds.',
    edits: [
      source(
        'worker/schedule/lane',
        '    if (performIn === this.#passed && now < this.#passedUntil) return false\n',
        '',
      ),
    ],
    tests: ['worker/lateness'],
  },
  {
    name: 'a concurrency that holds back nothing',
    promise: 'R9',
    breaks: 'A queue takes all slots of a process, though its definition allows it fewer.',
    edits: [
      source(
        'worker/schedule/timetable',
        '  return shard.served.room > 0\n',
        '  return shard.served.room > -1_000\n',
      ),
    ],
    tests: ['worker/side-by-side', 'worker/timetable'],
  },
  {
    name: 'shards served after the lock connection broke',
    promise: 'R12',
    breaks: 'Two processes serve one shard for as long as both live.',
    edits: [source('worker/assignment/holdings', '    timetable.clear()\n', '')],
    tests: ['worker/splitter'],
  },
  {
    name: 'locks believed whose session ended with its answer',
    promise: 'R12',
    breaks: 'A process that believes itself locked is alive to nobody, and takes no shard for good.',
    edits: [
      source(
        'worker/assignment/shard-locks',
        'if (session && this.#session !== session) throw',
        'if (!this) throw',
      ),
    ],
    tests: ['worker/shard-locks'],
  },
  {
    name: 'shards locked in a session that is nobody’s',
    promise: 'R12',
    breaks: 'Where it outlives its process, nobody ends it, and nobody serves the shards.',
    edits: [source('worker/assignment/shard-locks', 'async () => this.#shown', '() => this.#connected()')],
    tests: ['worker/shard-locks'],
  },
  {
    name: 'a stopped process keeps its shards',
    promise: 'P8',
    breaks: 'Nobody serves the shards of a process that was stopped.',
    edits: [source('worker/maintenance/all', '    new Zombies(logger, rebalanceInterval),\n', '')],
    tests: ['worker/backends', 'processes/pause'],
  },
  {
    name: 'a timeout that frees the id',
    promise: 'P1',
    breaks: 'The next handler of an id starts while the one that took too long still runs.',
    edits: [
      source(
        'worker/performing/perform',
        'if (holdsLease()) return queue.perform!(batch, context)',
        `if (holdsLease()) {
        const over = new Promise((resolve) => {
          abort.signal.addEventListener('abort', () => timeout.error && resolve(undefined))
        })
        return Promise.race([queue.perform!(batch, context), over])
      }`,
      ),
    ],
    tests: ['worker/stop'],
  },
  {
    name: 'no limit to crashes',
    promise: 'R10',
    breaks: 'A poisonous job takes the fleet down for ever, though its crashes are counted.',
    edits: [
      source(
        'worker/performing/batch',
        'payloads.length > 0 && crashes < queue.maxCrashes',
        'payloads.length > 0',
      ),
    ],
    tests: ['processes/kill'],
  },
  {
    name: 'one retry more',
    promise: 'R7',
    breaks: 'A payload runs maxRetryCount + 2 times.',
    edits: [
      source(
        'worker/performing/ending',
        'retryCount >= queue.maxRetryCount',
        'retryCount > queue.maxRetryCount',
      ),
    ],
    tests: ['worker/retry'],
  },
  {
    name: 'a lease counted from its answer',
    promise: 'P1',
    breaks: 'By the process’s clock its lease ends after it has by the server’s: it aborts too late.',
    edits: [
      source(
        'worker/membership/lease-thread',
        'expected.length === 0) return\n    renewed(askedAt)',
        'expected.length === 0) return\n    renewed(monotonicMs())',
      ),
    ],
    tests: ['worker/p1-lease'],
  },
  {
    name: 'a lease that is lengthened after its end',
    promise: 'P1',
    breaks:
      'A process that was stopped for longer than its lease goes on, and begins what others have taken over: all that it asks about its lease says yes.',
    edits: [source('worker/membership/lease-thread', '    if (expected.length === 0) return\n', '')],
    tests: ['worker/lease-thread'],
  },
  {
    name: 'prefetched jobs kept',
    promise: 'P8',
    breaks: 'A handler that becomes slow makes all that was taken with it wait.',
    edits: [
      source(
        'worker/performing/executor',
        'if (left <= LONGEST_UNATTENDED) return this.#releasePortion(lane, portion)',
        '',
      ),
    ],
    tests: ['worker/prefetch'],
  },
  {
    name: 'slots that only wait for their claims',
    promise: 'P7',
    breaks: 'Nobody begins what is prefetched elsewhere meanwhile.',
    edits: [source('worker/performing/executor', '      this.#waiting.wake(lane.shard.slot)\n', '')],
    tests: ['worker/waiting'],
  },
  {
    name: 'a queue that was passed over loses its turns',
    promise: 'R13',
    breaks: 'Those whose claims take longest get less than their share.',
    edits: [source('worker/schedule/scheduler', 'Math.min(start, otherStart)', 'start')],
    tests: ['worker/scheduler'],
  },
  {
    name: 'turns that are kept without end',
    promise: 'R13',
    breaks: 'After a claim that took seconds, the other queues wait for as long.',
    edits: [source('worker/schedule/scheduler', ', start - MOST_KEPT)', ')')],
    tests: ['worker/scheduler'],
  },
  {
    name: 'a scheduler that may add to the list it was given',
    promise: 'R12',
    breaks: 'A slot that waits for a claim waits for another, and more batches run than there are slots.',
    edits: [source('worker/performing/slot', 'pick([...due], others)', 'pick(due, others)')],
    tests: ['worker/waiting'],
  },
  {
    name: 'a slot that counts for the queue it waits for while it performs another',
    promise: 'P7',
    breaks: 'A queue with a limit stands still as long as another queue’s handler takes.',
    edits: [
      source(
        'worker/performing/slot',
        '    timetable.ends(served)\n    await this.#serve(pick.of)',
        '    await this.#serve(pick.of)',
      ),
    ],
    tests: ['worker/waiting'],
  },
  {
    name: 'a slot that comes back to a queue that others serve by now',
    promise: 'R12',
    breaks: 'More batches of the queue run than its limit allows.',
    edits: [source('worker/performing/executor', 'portion && lane.shard.served.room >= 0', 'portion')],
    tests: ['worker/waiting'],
  },
  {
    name: 'what a claim brings is kept for a slot that performs something else',
    promise: 'P8',
    breaks: 'It waits for that handler, or is released, while other slots sleep.',
    edits: [
      source(
        'worker/performing/executor',
        '      timetable.file(lane)\n      await performing\n',
        '      await performing\n',
      ),
    ],
    tests: ['worker/waiting'],
  },
  {
    name: 'a claim that several slots wait for asks for one job',
    promise: 'R13',
    breaks: 'Each further job of an urgent queue takes a call of its own, and slots idle.',
    edits: [source('worker/performing/executor', 'Math.max(1, lane.waiting)', '1')],
    tests: ['worker/waiting'],
  },
  {
    name: 'a queue whose lanes are all being claimed is not to be picked',
    promise: 'R13',
    breaks: 'Slots that become free meanwhile give its turns to other queues.',
    edits: [
      source(
        'worker/schedule/joinable',
        'if (peers.due === 0 && peers.awaited.size > 0) this.#groups.add(peers)',
        '',
      ),
    ],
    tests: ['worker/waiting', 'worker/timetable'],
  },
  {
    name: 'a slot that a claim has left without a job gives up',
    promise: 'R13',
    breaks: 'Of handlers that end together, most take what is less urgent.',
    edits: [
      source(
        'worker/performing/executor',
        'isPerforming(slot) && this.#mayAskAgain(lane)',
        'isPerforming(slot) && false',
      ),
    ],
    tests: ['worker/waiting', 'worker/scheduler'],
  },
  {
    name: 'slots that wait for a claim however long it takes',
    promise: 'P7',
    breaks: 'One call that is stuck takes all slots from the other queues.',
    edits: [source('worker/performing/executor', 'bell.wait(LONGEST_JOINED)', 'bell.wait()')],
    tests: ['worker/waiting'],
  },
  {
    name: 'slots that wait for what may not be there',
    promise: 'R13',
    breaks: 'Each single job of an urgent queue has all free slots wait for a call in vain.',
    edits: [source('worker/schedule/lane', 'wasQuick && last !== undefined && this.#next <= now', 'true')],
    tests: ['worker/waiting'],
  },
  {
    name: 'slots that all wait for the same shard',
    promise: 'R13',
    breaks: 'Where it has few jobs, they wait for one call after the other.',
    edits: [source('worker/schedule/scheduler', 'isClaimed ? -waiting : 1', 'isClaimed ? 0 : 1')],
    tests: ['worker/scheduler'],
  },
  {
    name: 'pushes that go together wait together',
    promise: 'P7',
    breaks: 'A row in somebody’s open transaction holds up pushes of other ids.',
    edits: [source('store/push', 'const LONGEST_WAIT = 20', 'const LONGEST_WAIT = 0')],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'a push that is held up counts for ever',
    promise: 'P7',
    breaks: 'Two open transactions elsewhere, and a process can push nothing.',
    edits: [source('enqueue/push-batcher', 'setTimeout(over, HELD_UP)', 'undefined')],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'one push refuses those that went with it',
    promise: 'P4',
    breaks: 'A caller gets the error of another one’s job.',
    edits: [
      source(
        'enqueue/push-batcher',
        'if (isConnectionFailure(error)) for (const { reject }',
        'if (error) for (const { reject }',
      ),
    ],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'a batch that ends before its handler',
    promise: 'P1',
    breaks: 'Behind a middleware that does not wait, two handlers of an id run at once.',
    edits: [source('worker/middleware', 'underWay.outlast(from(0))', 'from(0)')],
    tests: ['worker/middleware'],
  },
  {
    name: 'a middleware that begins the handler after its batch',
    promise: 'P1',
    breaks:
      'Behind a middleware that forgets to return, a handler runs without a claim, beside another of its id.',
    edits: [source('promises', 'this.#over = true', '')],
    tests: ['worker/middleware'],
  },
  {
    name: 'a completion in the handler’s encoding',
    promise: 'P3',
    breaks: 'The ids that are completed are those whose bytes look the same: somebody else’s.',
    edits: [source('store/handler-transaction', `, set_config('client_encoding', 'UTF8', true)`, '')],
    tests: ['worker/transactional'],
  },
  {
    name: 'pushes that what is sent after them overtakes',
    promise: 'P4',
    breaks: 'A push that nobody awaits is stored in the next transaction of its client.',
    edits: [
      source(
        'enqueue/joining',
        'if (this.#isImmediate(on, push)) {',
        'await undefined\n    if (this.#isImmediate(on, push)) {',
      ),
    ],
    tests: ['enqueue/same-transaction'],
  },
]
