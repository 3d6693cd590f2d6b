import { isDeepStrictEqual } from 'node:util'
import type { ProcessSight } from '../store/process.ts'
import type { QueueRow } from '../store/queue.ts'
import type { ServedQueues } from './served-queues.ts'
import type { ShardLocks } from './shard-locks.ts'
import type { ShardRef, Share, Splitter } from './splitter.ts'
import { type ServedQueue, Shard, type Timetable } from './timetable.ts'

export interface HoldingsOptions {
  readonly timetable: Timetable
  readonly locks: ShardLocks
  readonly splitter: Splitter
  readonly slots: number
  processId(): number
  /** Shards were let go of: others may have them. */
  onFreed(): Promise<void>
}

/** The shards this process holds: it lets go of what is too much, between batches, and takes what is free and its own. */
export class Holdings {
  readonly #options: HoldingsOptions
  #quiet = false

  constructor(options: HoldingsOptions) {
    this.#options = options
  }

  get count(): number {
    return [...this.#options.timetable.shards].length
  }

  /** Nothing is taken any more. */
  async quiet(): Promise<void> {
    this.#quiet = true
    await this.letGoOfAll()
  }

  /** Takes and lets go as the splitter says. `missing`: it has not all of its part yet. */
  async deal(
    queues: ServedQueues,
    rows: readonly QueueRow[],
    processes: readonly ProcessSight[],
  ): Promise<{ changed: boolean; missing: boolean }> {
    for (const shard of this.#options.timetable.shards) if (!queues.has(shard.served)) shard.leaving = true
    let first = 0
    let changed = false
    let missing = 0
    for (const served of queues) {
      const row = rows.find(({ queueId }) => queueId === served.queueId)
      if (!row) continue
      const share = this.#share(served, row, processes, first)
      changed = (await this.#giveUp(served, share)) || changed
      if (!this.#quiet) {
        changed = (await this.#take(served, share)) || changed
        missing += Math.max(0, share.quota - this.#of(served).filter(({ leaving }) => !leaving).length)
      }
      first += row.shards
    }
    return { changed, missing: missing > 0 }
  }

  async letGoOfAll(): Promise<void> {
    for (const shard of this.#options.timetable.shards) shard.leaving = true
    await this.#letGoOfLeaving()
  }

  async letGo(shards: readonly Shard[]): Promise<void> {
    const { timetable, locks, onFreed } = this.#options
    const held = shards.filter((one) => timetable.get(one.served.queueId, one.shard) === one)
    if (held.length === 0) return
    for (const shard of held) timetable.remove(shard)
    await locks
      .unlockShards(held.map(({ served, shard }) => ({ queueId: served.queueId, shard })))
      .catch(() => {})
    await onFreed()
  }

  #share(served: ServedQueue, row: QueueRow, processes: readonly ProcessSight[], first: number): Share {
    const { splitter, slots, timetable, processId } = this.#options
    const { name } = served.queue
    const sharing = processes.filter((one) => one.connected && !one.quiet && one.queues.includes(name))
    const rank = sharing.findIndex((one) => one.processId === processId())
    const same = sharing.every((process) => isDeepStrictEqual(process.queues, sharing[0]!.queues))
    const { queueId } = served
    const shards = Array.from({ length: row.shards }, (_, shard) => ({ queueId, shard }))
    const holds = ({ shard }: ShardRef) => timetable.get(queueId, shard)?.leaving === false
    return splitter.share({ shards, first, processes: sharing.length, rank, same, holds }, slots)
  }

  /** Lets go of what the share has no place for. */
  async #giveUp(served: ServedQueue, { quota, wanted }: Share): Promise<boolean> {
    const keep = new Set(wanted.slice(0, quota).map(({ shard }) => shard))
    let changed = false
    for (const shard of this.#of(served)) {
      if (keep.has(shard.shard) && !this.#quiet) continue
      shard.leaving = true
      changed = true
    }
    await this.#letGoOfLeaving()
    return changed
  }

  /** Takes free shards until the share is full. */
  async #take(served: ServedQueue, { quota, wanted, slotOf }: Share): Promise<boolean> {
    const { timetable, locks } = this.#options
    const free = wanted.filter(({ queueId, shard }) => !timetable.get(queueId, shard))
    let left = quota - this.#of(served).length
    let changed = false
    while (left > 0 && free.length > 0) {
      const locked = await locks.lockShards(free.splice(0, left))
      for (const ref of locked) timetable.add(new Shard(served, ref.shard, slotOf(ref)))
      left -= locked.length
      changed ||= locked.length > 0
    }
    return changed
  }

  #of(served: ServedQueue): Shard[] {
    return [...this.#options.timetable.shards].filter((shard) => shard.served === served)
  }

  async #letGoOfLeaving(): Promise<void> {
    await this.letGo([...this.#options.timetable.shards].filter(({ leaving, busy }) => leaving && !busy))
  }
}
