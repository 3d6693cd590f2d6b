import {
  allShards,
  byNode,
  dynamic,
  fair,
  lag,
  type Queue,
  type Scheduler,
  type Splitter,
  seq,
  strict,
  weighted,
} from '../../index.ts'
import type { ConnectionOptions } from '../connection.ts'
import { UsageError } from '../failure.ts'
import { quote } from '../suggest.ts'
import { requireKnown } from './queues.ts'

export interface WorkFlags extends ConnectionOptions {
  readonly require: readonly string[]
  readonly processes: number
  readonly queues?: string
  readonly slots?: number
  readonly scheduler?: string
  readonly splitter?: string
  readonly lease?: number
  readonly poll?: number
  readonly shutdownTimeout?: number
  readonly drain?: boolean
  readonly healthPort?: number
  readonly healthHost?: string
}

/** @throws UsageError, or OptionError for an invalid weight */
export function schedulerOf(text: string, queues: readonly Queue[]): Scheduler {
  const [kind, rest] = halves(text, ':')
  if (kind === 'fair' && rest === undefined) return fair()
  if (kind === 'lag' && rest === undefined) return lag()
  if (kind === 'seq' && rest === undefined) return seq()
  if (kind === 'strict' && rest) {
    const names = rest.split(',')
    requireKnown(names, queues, '--scheduler strict')
    return strict(names)
  }
  if (kind === 'weighted' && rest) {
    const weights = rest.split(',').map((part) => halves(part, '='))
    requireKnown(
      weights.map(([name]) => name),
      queues,
      '--scheduler weighted',
    )
    return weighted(Object.fromEntries(weights.map(([name, weight]) => [name, Number(weight ?? Number.NaN)])))
  }
  throw new UsageError(
    `--scheduler must be fair, lag, seq, weighted:orders=6,mails=3 or strict:orders,mails, not ${quote(text)}`,
  )
}

/** Identifies one of several processes under a supervisor; a single process is 0 of 1. */
export interface Rank {
  readonly index: number
  readonly of: number
}

/**
 * Fixed splitters give the share of node k of K to its N processes, in turn.
 * @throws UsageError, or OptionError for a node out of range
 */
export function splitterOf(text: string, { index, of }: Rank): Splitter {
  if (text === 'dynamic') return dynamic()
  if (text === 'default') return of === 1 ? allShards() : byNode(of, index)
  const [, nodes, node] = /^node:(\d+)\/(\d+)$/.exec(text) ?? []
  if (nodes === undefined) {
    throw new UsageError(
      `--splitter must be dynamic, default or node:K/k such as node:3/0, not ${quote(text)}`,
    )
  }
  byNode(Number(nodes), Number(node))
  return byNode(Number(nodes) * of, Number(node) + Number(nodes) * index)
}

/** Whether other nodes must serve the remaining shards. */
export function servesAPart(splitter = ''): boolean {
  return /^node:0*([2-9]|1\d)/.test(splitter)
}

function halves(text: string, separator: string): [string, string | undefined] {
  const at =
    text.lastIndexOf(separator) >= 0 ? (separator === ':' ? text.indexOf(':') : text.lastIndexOf('=')) : -1
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}
