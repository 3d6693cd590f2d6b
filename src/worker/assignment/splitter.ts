import { wholeNumber } from '../../options.ts'

/** A shard of a queue that the worker serves. */
export interface ShardRef {
  readonly queueId: number
  readonly shard: number
}

/** The shards of one queue, and the processes that serve it. */
export interface QueueShards {
  /** In the order of the list of all shards of all queues; `first` is the place of the first one in that list. */
  readonly shards: readonly ShardRef[]
  readonly first: number
  /** How many live processes serve the queue, and the place of this one among them; below 0 if it is not alive. */
  readonly processes: number
  readonly rank: number
  /** Whether they all serve the same queues in the same order. Only then do they have the same list. */
  readonly same: boolean
  holds(shard: ShardRef): boolean
}

/** A process's part of a queue: up to `quota` shards of `wanted`, the most wanted first. */
export interface Share {
  readonly quota: number
  readonly wanted: readonly ShardRef[]
  /** The only slot that serves the shard; undefined if any free slot may. */
  slotOf(shard: ShardRef): number | undefined
}

/** Assigns shards to processes and slots (R12). */
export interface Splitter {
  share(queue: QueueShards, slots: number): Share
}

/** One process serves all shards: shard i of the list goes to slot i mod slots. */
export function allShards(): Splitter {
  return byNode(1, 0)
}

/**
 * A fixed number of nodes: node k of K serves the shards i with i mod K = k, and assigns them to its slots in turn.
 * @throws OptionError
 */
export function byNode(nodes: number, node: number): Splitter {
  wholeNumber(nodes, 1, 100_000, 'byNode: the number of nodes')
  wholeNumber(node, 0, nodes - 1, 'byNode: the node')
  return {
    share({ shards, first }, slots) {
      const place = new Map(shards.map((shard, index) => [shard, first + index]))
      const wanted = shards.filter((shard) => place.get(shard)! % nodes === node)
      return {
        quota: wanted.length,
        wanted,
        slotOf: (shard) => Math.floor(place.get(shard)! / nodes) % slots,
      }
    },
  }
}

/**
 * The default: live processes share each queue evenly, and take over from each other. Each counts the shards it would get
 * if the list were assigned in turn. It keeps shards it holds up to that number, and takes free ones for the rest. So when
 * a process joins or leaves, no more shards move than necessary. Any free slot serves any shard. If the lists of the
 * processes differ, each queue counts as a list of its own: otherwise some shard might belong to no process.
 */
export function dynamic(): Splitter {
  return {
    share({ shards, first, processes, rank, same, holds }) {
      if (rank < 0) return { quota: 0, wanted: [], slotOf: () => undefined }
      const turn = same ? first : (shards[0]?.queueId ?? 0)
      const quota = shards.filter((_, index) => (turn + index) % processes === rank).length
      const start = Math.floor((rank * shards.length) / processes)
      const turned = [...shards.slice(start), ...shards.slice(0, start)]
      const wanted = [...turned.filter(holds), ...turned.filter((shard) => !holds(shard))]
      return { quota, wanted, slotOf: () => undefined }
    },
  }
}
