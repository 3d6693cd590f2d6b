import { Batcher } from './batcher.ts'
import { Completer } from './completer.ts'
import { Observer, type ObserverOptions } from './observer.ts'
import { Tally } from './tally.ts'

/** The parts that store outcomes, count them, and tell of them. */
export interface Settling {
  readonly tally: Tally
  /** Claims go with outcomes. */
  readonly batcher: Batcher
  readonly completer: Completer
}

export function createSettling(options: Omit<ObserverOptions, 'tally'>): Settling {
  const { database, logger } = options
  const tally = new Tally(database)
  const batcher = new Batcher(database)
  const completer = new Completer(database, batcher, logger, new Observer({ ...options, tally }))
  return { tally, batcher, completer }
}
