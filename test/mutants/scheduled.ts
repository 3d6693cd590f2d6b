import { type Mutant, source } from './mutant.ts'

/** Mistakes that this queue in particular could make, in what slots take, and when. */
export const SCHEDULED: readonly Mutant[] = [
  {
    name: 'a job that was asked for a moment too early waits as if its row were locked',
    promise: 'P8',
    breaks:
      'A job starts milliseconds late if the clocks of the server and the worker differ by a fraction of one.',
    edits: [source('worker/schedule/lane', 'head <= this.claimedAt - BARELY_DUE', 'head <= now')],
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
    tests: ['worker/side-by-side.slow'],
  },
  {
    name: 'a claim while something goes back',
    promise: 'P8',
    breaks: 'It passes over what goes back, and brings what is due later.',
    edits: [source('worker/performing/executor', '      while (lane.returned) await lane.returned\n', '')],
    tests: ['worker/side-by-side.slow'],
  },
  {
    name: 'what a claim brings while something goes back begins',
    promise: 'P8',
    breaks: 'It is due later than what went back.',
    edits: [source('worker/performing/executor', 'lane.isAhead || ', '')],
    tests: ['worker/executor', 'worker/side-by-side.slow'],
  },
  {
    name: 'a portion goes back alone',
    promise: 'P8',
    breaks: 'What is due after it is prefetched, and begins first.',
    edits: [
      source('worker/schedule/lane', 'this.#portions.slice(this.#portions.indexOf(portion))', '[portion]'),
    ],
    tests: ['worker/timetable', 'worker/side-by-side.slow'],
  },
  {
    name: 'a lane that wakes nobody',
    promise: 'P8',
    breaks: 'A job waits for the next look while slots sleep.',
    edits: [
      source(
        'worker/schedule/timetable',
        '    if (this.#sleepers.size > 0 && isOpen(lane) && lane.isReady) this.#sleepers.wake(lane.shard.slot)\n',
        '',
      ),
    ],
    tests: ['worker/timetable'],
  },
  {
    name: 'looks that start at the cursor',
    promise: 'P8',
    breaks: 'What a longer transaction has pushed waits for the next full look.',
    edits: [source('worker/discovery/looks', 'cursor: lane.before(span)', 'cursor: lane.cursor')],
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
        '  return lane.shard.served.room > 0 &&',
        '  return lane.shard.served.room > -1_000 &&',
      ),
    ],
    tests: ['worker/side-by-side.slow', 'worker/timetable'],
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
    tests: ['worker/backends.slow', 'processes/pause.slow'],
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
    edits: [source('worker/schedule/turns', 'Math.min(start, otherStart)', 'start')],
    tests: ['worker/scheduler'],
  },
  {
    name: 'turns that are kept without end',
    promise: 'R13',
    breaks: 'After a claim that took seconds, the other queues wait for as long.',
    edits: [source('worker/schedule/turns', ', startOf(next) - MOST_KEPT)', ')')],
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
    edits: [
      source(
        'worker/schedule/lane',
        'wasQuick && last !== undefined && !this.withholding.isOfQueue && this.#claimable <= now',
        'true',
      ),
    ],
    tests: ['worker/waiting'],
  },
  {
    name: 'slots that all wait for the same shard',
    promise: 'R13',
    breaks: 'Where it has few jobs, they wait for one call after the other.',
    edits: [source('worker/schedule/best', 'isClaimed ? -waiting : 1', 'isClaimed ? 0 : 1')],
    tests: ['worker/scheduler'],
  },
  {
    name: 'a scheduler that sees lanes as they first were',
    promise: 'R13',
    breaks: 'Slots neither finish what a claim brought nor go where jobs have waited longest.',
    edits: [source('worker/schedule/timetable', 'lane.candidate.update()', '')],
    tests: ['worker/scheduler', 'worker/timetable'],
  },
]
