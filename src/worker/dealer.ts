import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { type Release, successorOf } from '../postgres/release.ts'
import { serverNow } from '../store/head.ts'
import type { ProcessSight } from '../store/process.ts'
import { type QueueRow, rehome } from '../store/queue.ts'
import { FrozenProcesses } from './frozen.ts'
import type { ServedQueues } from './served-queues.ts'
import type { ServerClock } from './server-clock.ts'
import { Loop, type Service } from './service.ts'
import type { ShardLocks } from './shard-locks.ts'
import { SilentProcesses } from './silent.ts'
import type { ShardRef, Share, Splitter } from './splitter.ts'
import type { StrandedSessions } from './stranded.ts'
import { type ServedQueue, Shard, type Timetable } from './timetable.ts'

/** Strays are moved in chunks of this many jobs, one chunk a heartbeat. */
const REHOME_CHUNK = 500

export interface DealerOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly locks: ShardLocks
  readonly stranded: StrandedSessions
  readonly splitter: Splitter
  readonly queues: ServedQueues
  readonly slots: number
  /** ms between comparisons. */
  readonly heartbeat: number
  readonly logger: Logger
  readonly clock: ServerClock
  processId(): number
  /** Whether the lease runs: without one nothing is this process's own. */
  alive(): boolean
  /**
   * A former session of this process still has its locks: the connection broke, and the server doesn't know yet.
   * Somebody new can have the session ended as that of a process which is gone.
   */
  onOutlived(): void
  /** A comparison failed; the next one comes. */
  onFailure(error: unknown): void
  /** Shards came or went; so many are held now. */
  onDealt(shards: number): void
  /** Other processes are gone, and what they had in work is free. */
  onGone(): void
  /** A later release has migrated the database, and its definitions no longer serve this one. */
  onOutdated(by: Release): void
}

/**
 * Keeps this process's part of the shards: at each heartbeat it compares live processes and shards, lets go of
 * what is too much, between batches, and takes what is free and its own.
 */
export class Dealer implements Service {
  readonly #options: DealerOptions
  readonly #loop = new Loop(() => this.#pass())
  readonly #frozen: FrozenProcesses
  readonly #silent: SilentProcesses
  #lockedAs = 0
  /** Shards also go between two comparisons, when a slot has ended its batch. */
  #told = 0
  #quiet = false
  #soon = false

  constructor(options: DealerOptions) {
    this.#options = options
    this.#frozen = new FrozenProcesses(options.database, options.logger)
    this.#silent = new SilentProcesses(options.database, options.logger, options.onGone)
  }

  /** The first comparison is awaited, so that a start that can't work fails. */
  async start(): Promise<void> {
    await this.#deal()
    await this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  /** Takes nothing new, and lets go of every shard as soon as it isn't busy. */
  async quiet(): Promise<void> {
    this.#quiet = true
    await this.#letGoOfAll()
  }

  /** Something changed: compare now, and where that is under way, once more. */
  dealSoon(): void {
    this.#soon = true
    this.#loop.alarm.ring()
  }

  /** The lock connection broke: nothing is ours until it is locked again. */
  locksLost(): void {
    this.#lockedAs = 0
    this.#told = 0
    this.#options.timetable.clear()
    this.#loop.alarm.ring()
  }

  /** A slot has ended its batch. */
  async shardFree(shard: Shard): Promise<void> {
    if (shard.leaving) await this.#letGo([shard])
  }

  async #pass(): Promise<void> {
    if (!this.#soon) await this.#loop.alarm.wait(Math.min(this.#options.heartbeat, this.#silent.next))
    this.#soon = false
    if (this.#loop.stopping) return
    try {
      await this.#deal()
    } catch (error) {
      this.#options.logger.warn({ error: (error as Error).message }, 'comparing processes and shards failed')
      this.#options.onFailure(error)
    }
  }

  async #deal(): Promise<void> {
    const { database, queues, timetable, stranded, alive } = this.#options
    const successor = await successorOf(database)
    if (successor) return this.#options.onOutdated(successor)
    await stranded.end()
    if (!alive()) return this.#letGoOfAll()
    await this.#readClock()
    await this.#lockProcess()
    const rows = await queues.compare(!this.#quiet)
    for (const shard of timetable.shards) if (!queues.has(shard.served)) shard.leaving = true
    const processes = await this.#silent.look()
    let first = 0
    let changed = false
    for (const served of queues) {
      const row = rows.find(({ queueId }) => queueId === served.queueId)
      if (!row) continue
      const share = this.#share(served, row, processes, first)
      changed = (await this.#follow(served, share)) || changed
      first += row.shards
    }
    await this.#tidy(rows)
    await this.#frozen.end()
    const held = [...timetable.shards].length
    if (changed || this.#told !== held) this.#options.onDealt(held)
    this.#told = held
  }

  async #readClock(): Promise<void> {
    const askedAt = performance.now()
    this.#options.clock.set(await serverNow(this.#options.database), askedAt, performance.now())
  }

  async #lockProcess(): Promise<void> {
    const processId = this.#options.processId()
    if (processId === this.#lockedAs || this.#quiet) return
    if (!(await this.#options.locks.lockProcess(processId))) this.#options.onOutlived()
    // Noted before anything else is awaited: the connection may break meanwhile, and then it has to be done again.
    const former = this.#lockedAs
    this.#lockedAs = processId
    if (former > 0) await this.#options.locks.unlockProcess(former)
  }

  #share(served: ServedQueue, row: QueueRow, processes: readonly ProcessSight[], first: number): Share {
    const { splitter, slots, timetable } = this.#options
    const { name } = served.queue
    const sharing = processes.filter((one) => one.connected && !one.quiet && one.queues.includes(name))
    const rank = sharing.findIndex(({ processId }) => processId === this.#options.processId())
    const same = sharing.every((process) => isDeepStrictEqual(process.queues, sharing[0]!.queues))
    const { queueId } = served
    const shards = Array.from({ length: row.shards }, (_, shard) => ({ queueId, shard }))
    const holds = ({ shard }: ShardRef) => timetable.get(queueId, shard)?.leaving === false
    return splitter.share({ shards, first, processes: sharing.length, rank, same, holds }, slots)
  }

  /** Lets go of what the share has no place for, then takes free shards until it is full. */
  async #follow(served: ServedQueue, { quota, wanted, slotOf }: Share): Promise<boolean> {
    const { timetable, locks } = this.#options
    const keep = new Set(wanted.slice(0, quota).map(({ shard }) => shard))
    let changed = false
    for (const shard of [...timetable.shards]) {
      if (shard.served !== served || (keep.has(shard.shard) && !this.#quiet)) continue
      shard.leaving = true
      changed = true
    }
    await this.#letGoOfLeaving()
    if (this.#quiet) return changed
    const free = wanted.filter(({ queueId, shard }) => !timetable.get(queueId, shard))
    let missing = quota - [...timetable.shards].filter((shard) => shard.served === served).length
    while (missing > 0 && free.length > 0) {
      const locked = await locks.lockShards(free.splice(0, missing))
      for (const ref of locked) timetable.add(new Shard(served, ref.shard, slotOf(ref)))
      missing -= locked.length
      changed ||= locked.length > 0
    }
    return changed
  }

  async #letGoOfAll(): Promise<void> {
    for (const shard of this.#options.timetable.shards) shard.leaving = true
    await this.#letGoOfLeaving()
  }

  async #letGoOfLeaving(): Promise<void> {
    await this.#letGo([...this.#options.timetable.shards].filter(({ leaving, busy }) => leaving && !busy))
  }

  async #letGo(shards: readonly Shard[]): Promise<void> {
    const { timetable, locks } = this.#options
    const held = shards.filter((one) => timetable.get(one.served.queueId, one.shard) === one)
    if (held.length === 0) return
    for (const shard of held) timetable.remove(shard)
    await locks
      .unlockShards(held.map(({ served, shard }) => ({ queueId: served.queueId, shard })))
      .catch(() => {})
  }

  /** What any process may do for all: move jobs out of shards that went. */
  async #tidy(rows: readonly QueueRow[]): Promise<void> {
    const { database } = this.#options
    for (const { queueId, strays } of rows) if (strays) await rehome(database, queueId, REHOME_CHUNK)
  }
}
