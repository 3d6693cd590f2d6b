import { wholeNumber } from '../../options.ts'

/** A shard of a queue the worker serves. */
export interface ShardRef {
  readonly queueId: number
  readonly shard: number
}

/** The shards of one queue, and who else serves it. */
export interface Hand {
  /** In their order in the list of all shards of all queues; `first` is the list's place of the first. */
  readonly shards: readonly ShardRef[]
  readonly first: number
  /** How many live processes serve the queue, and the place of this one among them; below 0: it is not alive. */
  readonly processes: number
  readonly rank: number
  /** Whether they all serve the same queues in the same order: only then they have one list. */
  readonly same: boolean
  holds(shard: ShardRef): boolean
}

/** What a process takes of a queue: up to `quota` of `wanted`, most wanted first. */
export interface Share {
  readonly quota: number
  readonly wanted: readonly ShardRef[]
  /** The one slot that serves the shard; undefined: any that is free. */
  slotOf(shard: ShardRef): number | undefined
}

/** Deals shards out to processes and slots (R12). */
export interface Splitter {
  share(hand: Hand, slots: number): Share
}

/** One process serves all: shard i of the list goes to slot i mod slots. */
export function allShards(): Splitter {
  return byNode(1, 0)
}

/**
 * A fixed number of nodes: node k of K keeps the shards i with i mod K = k, then deals them to its slots in turn.
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
 * The default: live processes share each queue evenly and take over from each other. Each counts what would be
 * rebalanced to it if the list went round, keeps what it holds up to that number, and takes free shards for the rest:
 * when a process joins or leaves, no more shards move than have to. Any free slot serves any of them.
 * Where their lists differ, each queue counts as a list, or some shard would be left to nobody.
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
