import { isConnectionFailure } from '../postgres/failure.ts'
import type { Claim, Round } from '../store/claim.ts'
import { LONGEST_IN_HAND } from './appetite.ts'
import { workOff } from './batch.ts'
import type { Exchange } from './exchange.ts'
import { Loading, type LoadingOptions } from './loading.ts'
import { Patience, type PatienceOptions } from './patience.ts'
import { Abort } from './perform.ts'
import type { Running, RunningBatch } from './running.ts'
import type { ServerClock } from './server-clock.ts'
import type { Claimant } from './settlements.ts'
import type { Lane } from './timetable.ts'
import type { BatchSettings } from './transaction.ts'

/** Who took what is in hand. */
type Hand = Omit<Claimant, 'startedAt'>

export interface ServingOptions extends PatienceOptions, LoadingOptions {
  readonly exchange: Exchange
  readonly batchSettings: BatchSettings
  readonly running: Running
  readonly clock: ServerClock
  /** ms until a lane is tried again whose claim failed. */
  readonly poll: number
  /** Whether several batches of a lane may be taken at once. */
  readonly takesAhead: boolean
}

/** What a slot does with a lane: claim a batch, work it off, have its outcome stored. */
export class Serving {
  readonly patience: Patience
  readonly #options: ServingOptions
  readonly #loading: Loading

  constructor(options: ServingOptions) {
    this.#options = options
    this.patience = new Patience(options)
    this.#loading = new Loading(options)
  }

  /** The claim counts as a round from before it is sent: whom its rows belong to does not retire meanwhile. */
  async serve(lane: Lane, slot: number): Promise<void> {
    const { identity } = this.#options
    const { processId } = identity
    const brought = lane.takeBrought()
    if (brought) {
      const hand = { served: lane.shard.served, processId: brought.processId, shard: lane.shard.shard, slot }
      return this.#begin(lane, hand, brought.rounds)
    }
    identity.took(processId, 1)
    try {
      const taken = await this.#claim(lane, processId)
      if (!taken || taken.rounds.length === 0) return
      const { served, shard } = lane.shard
      identity.took(processId, taken.rounds.length)
      await this.#begin(lane, { served, processId, shard, slot }, taken.rounds)
    } finally {
      identity.gave(processId, 1)
    }
  }

  async #claim(lane: Lane, processId: number): Promise<Claim | undefined> {
    const { exchange, clock, logger, events, poll, takesAhead, onLostAnswer } = this.#options
    const { queue } = lane.shard.served
    lane.claimBegins()
    try {
      const { key, cursor, appetite } = lane
      const { maxPayloads, maxBytes } = queue
      const count = takesAhead ? appetite.jobs : appetite.batch
      const wish = { key, cursor, count, maxPayloads, maxBytes }
      const jobs = Math.min(count, lane.likely)
      const taken = await exchange.claim(processId, wish, { jobs, size: appetite.likelySize(jobs) })
      lane.claimEnded(taken, clock.now())
      if (lane.overdue !== undefined) this.patience.waitFor(lane, lane.overdue)
      return taken
    } catch (error) {
      logger.warn({ error: (error as Error).message, queue: queue.name }, 'claiming failed')
      events.emit('failure', error)
      lane.postpone(clock.now() + poll * 1000)
      if (isConnectionFailure(error)) await onLostAnswer()
      return undefined
    }
  }

  async #begin(lane: Lane, hand: Hand, rounds: readonly Round[]): Promise<void> {
    const { events } = this.#options
    const queue = hand.served.queue.name
    for (const { rescued, id, crashes } of rounds) if (rescued) events.emit('rescued', { queue, id, crashes })
    const startedAt = performance.now()
    await this.#play(lane, hand, [...rounds], startedAt + LONGEST_IN_HAND)
    lane.appetite.satisfied(rounds, performance.now() - startedAt)
  }

  /** One batch after the other. What has not begun by `until`, while a handler runs or because one did, is given back. */
  async #play(lane: Lane, hand: Hand, left: Round[], until: number): Promise<void> {
    const { batchSize } = hand.served.queue
    const giveBack = () => this.#giveBack(hand, left.splice(0))
    let timer: NodeJS.Timeout | undefined
    if (!this.#mayBegin(lane, hand)) giveBack()
    while (left.length > 0) {
      const taken = takeBatch(left, batchSize)
      if (left.length > 0) timer ??= setTimeout(giveBack, until - performance.now())
      if (taken[0]!.toLoad) await this.#loadAndWorkOff(lane, hand, taken[0]!)
      else await this.#workOff(lane, hand, taken)
      // A timer does not come between handlers that leave the event loop no turn.
      if (left.length > 0 && (!this.#mayBegin(lane, hand) || performance.now() > until)) giveBack()
    }
    clearTimeout(timer)
  }

  async #loadAndWorkOff(lane: Lane, hand: Hand, round: Round): Promise<void> {
    const claimant = { ...hand, startedAt: performance.now() }
    const loaded = await this.#loading.load(claimant, round, () => this.#mayBegin(lane, hand))
    if (loaded) await this.#workOffOrGiveBack(lane, hand, [loaded])
  }

  async #workOffOrGiveBack(lane: Lane, hand: Hand, rounds: readonly Round[]): Promise<void> {
    if (this.#mayBegin(lane, hand)) await this.#workOff(lane, hand, rounds)
    else this.#giveBack(hand, rounds)
  }

  /** Meanwhile the worker may have been told to stop, its lease may have ended, or the shard may be to go. */
  #mayBegin({ shard }: Lane, { processId }: Hand): boolean {
    const { identity, ready } = this.#options
    return ready() && processId === identity.processId && !shard.leaving
  }

  #giveBack(hand: Hand, released: readonly Round[]): void {
    if (released.length === 0) return
    const claimant = { ...hand, startedAt: performance.now() }
    this.#options.settlements.settle(claimant, { completed: [], failed: [], released })
  }

  async #workOff(lane: Lane, hand: Hand, rounds: readonly Round[]): Promise<void> {
    const { running, batchSettings, settlements, events, identity } = this.#options
    const { shard, slot, served } = hand
    const claimant = { ...hand, startedAt: performance.now() }
    const batch: RunningBatch = {
      queue: served.queue,
      rounds,
      claimant,
      abort: new Abort(),
      describe: this.#options.describe,
      holdsLease: () => identity.holds(hand.processId),
      since: new Date(),
    }
    if (events.listenerCount('started') > 0)
      events.emit('started', { queue: served.queue.name, shard, slot, ids: rounds.map(({ id }) => id) })
    running.add(batch)
    let parts: readonly Round[][]
    try {
      parts = await workOff(batchSettings, settlements, claimant, batch)
    } finally {
      running.remove(batch)
    }
    for (const part of parts) await this.#workOffOrGiveBack(lane, hand, part)
  }
}

/** The next of what is in hand: those that came with the claim, or one that is to be loaded, alone. */
function takeBatch(left: Round[], batchSize: number): Round[] {
  const most = Math.min(batchSize, left.length)
  let count = 1
  while (count < most && !left[0]!.toLoad && !left[count]!.toLoad) count += 1
  return left.splice(0, count)
}
