import { isDeepStrictEqual } from 'node:util'
import type { ProcessSight } from '../../store/process.ts'
import type { QueueRow } from '../../store/queue.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'
import { Shard } from '../schedule/shard.ts'
import type { Timetable } from '../schedule/timetable.ts'
import type { ServedQueues } from './served-queues.ts'
import type { ShardLocks } from './shard-locks.ts'
import type { ShardRef, Share, Splitter } from './splitter.ts'

export interface HoldingsOptions {
  readonly timetable: Timetable
  readonly locks: ShardLocks
  readonly splitter: Splitter
  readonly slots: number
  processId(): number
  /** These shards are no longer ours: releases their prefetched jobs. Resolves when those wait again. */
  onDropped(shards: readonly Shard[]): Promise<void>
  /** Shards were released: others may take them. */
  onFreed(): Promise<void>
}

/**
 * The shards that this process holds. Releases shards beyond its part, and takes free ones that belong to it. When a shard
 * goes, its batches in progress go on: their rows are claimed, so the shard's next process skips them.
 */
export class Holdings {
  readonly #options: HoldingsOptions
  #quiet = false

  constructor(options: HoldingsOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#options.timetable.size
  }

  /** Releases all shards, and takes no more. */
  async quiet(): Promise<void> {
    this.#quiet = true
    await this.letGoOfAll()
  }

  /** Takes and releases shards as the splitter says. `missing`: the process does not have all of its part yet. */
  async rebalance(
    queues: ServedQueues,
    rows: readonly QueueRow[],
    processes: readonly ProcessSight[],
  ): Promise<{ changed: boolean; missing: boolean }> {
    await this.#letGo([...this.#options.timetable.shards].filter(({ served }) => !queues.has(served)))
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
        missing += Math.max(0, share.quota - this.#of(served).length)
      }
      first += row.shards
    }
    return { changed, missing: missing > 0 }
  }

  /** Returns whether there were any. */
  async letGoOfAll(): Promise<boolean> {
    const { count } = this
    await this.#letGo([...this.#options.timetable.shards])
    return count > 0
  }

  /** The locks are gone. */
  lost(): void {
    const { timetable, onDropped } = this.#options
    const shards = [...timetable.shards]
    timetable.clear()
    void onDropped(shards)
  }

  async #letGo(shards: readonly Shard[]): Promise<void> {
    const { timetable, locks, onDropped, onFreed } = this.#options
    const held = shards.filter(({ isHeld }) => isHeld)
    if (held.length === 0) return
    for (const shard of held) timetable.remove(shard)
    // Before others may take the shards: they would begin jobs that are due later.
    await onDropped(held)
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
    const holds = ({ shard }: ShardRef) => timetable.get(queueId, shard) !== undefined
    return splitter.share({ shards, first, processes: sharing.length, rank, same, holds }, slots)
  }

  /** Releases shards that the share has no place for. */
  async #giveUp(served: ServedQueue, { quota, wanted }: Share): Promise<boolean> {
    const keep = new Set(wanted.slice(0, quota).map(({ shard }) => shard))
    const leaving = this.#of(served).filter(({ shard }) => this.#quiet || !keep.has(shard))
    await this.#letGo(leaving)
    return leaving.length > 0
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
}
