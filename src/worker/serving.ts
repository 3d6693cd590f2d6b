import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { type Claim, claim, type Round } from '../store/claim.ts'
import { type BatchSettings, workOff } from './batch.ts'
import type { WorkerEmitter } from './events.ts'
import type { Identity } from './identity.ts'
import type { Running, RunningBatch } from './running.ts'
import type { ServerClock } from './server-clock.ts'
import type { Claimant, Settlements } from './settlements.ts'
import type { Lane } from './timetable.ts'

export interface ServingOptions {
  readonly database: Database
  readonly batchSettings: BatchSettings
  readonly settlements: Settlements
  readonly identity: Identity
  readonly running: Running
  readonly clock: ServerClock
  readonly events: WorkerEmitter
  readonly logger: Logger
  /** ms until a lane is tried again whose claim failed. */
  readonly poll: number
  /** Whether a handler may start. */
  ready(): boolean
  /** The answer to a claim was lost. */
  onLostAnswer(): Promise<void>
}

/** What a slot does with a lane: claim a batch, work it off, have its outcome stored. */
export class Serving {
  readonly #options: ServingOptions

  constructor(options: ServingOptions) {
    this.#options = options
  }

  /** The claim counts as a round from before it is sent: whom its rows belong to does not retire meanwhile. */
  async serve(lane: Lane, slot: number): Promise<void> {
    const { identity } = this.#options
    const { processId } = identity
    identity.took(processId, 1)
    try {
      const taken = await this.#claim(lane, processId)
      if (!taken || taken.rounds.length === 0) return
      const { served, shard } = lane.shard
      identity.took(processId, taken.rounds.length)
      await this.#begin({ served, processId, shard, slot, startedAt: performance.now() }, taken.rounds)
    } finally {
      identity.gave(processId, 1)
    }
  }

  async #claim(lane: Lane, processId: number): Promise<Claim | undefined> {
    const { database, clock, logger, events, poll, onLostAnswer } = this.#options
    const { queue } = lane.shard.served
    lane.claimBegins()
    try {
      const { batchSize, maxPayloads } = queue
      const taken = await claim(database, processId, lane.key, lane.cursor, batchSize, maxPayloads)
      lane.claimEnded(taken, clock.now())
      return taken
    } catch (error) {
      logger.warn({ error: (error as Error).message, queue: queue.name }, 'claiming failed')
      events.emit('failure', error)
      lane.postpone(clock.now() + poll * 1000)
      if (isConnectionFailure(error)) await onLostAnswer()
      return undefined
    }
  }

  async #begin(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const { identity, settlements, events, ready } = this.#options
    const queue = claimant.served.queue.name
    for (const { rescued, id, crashes } of rounds) if (rescued) events.emit('rescued', { queue, id, crashes })
    // While the claim was under way the worker may have been told to stop, or the lease ended: nothing may start.
    if (ready() && claimant.processId === identity.processId) return this.#workOff(claimant, rounds)
    await settlements.settle(claimant, { completed: [], failed: [], released: rounds })
  }

  async #workOff(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const { running, batchSettings, settlements, events } = this.#options
    const { shard, slot, served } = claimant
    const batch: RunningBatch = {
      queue: served.queue,
      rounds,
      claimant,
      abort: new AbortController(),
      since: new Date(),
    }
    events.emit('started', { queue: served.queue.name, shard, slot, ids: rounds.map(({ id }) => id) })
    running.add(batch)
    try {
      await workOff(batchSettings, settlements, claimant, batch)
    } finally {
      running.remove(batch)
    }
  }
}
