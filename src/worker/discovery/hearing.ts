import type { Message } from '../../store/wake.ts'
import type { Assigner } from '../assignment/assigner.ts'
import type { Poller } from './poller.ts'

/** Those whom messages concern, once they exist. */
export interface Hearers {
  readonly assigner?: Pick<Assigner, 'changed' | 'freed' | 'rebalanceSoon'>
  readonly poller?: Pick<Poller, 'hear'>
}

/** Passes on what other processes report: changed states and shards that are free concern the assigner alone. */
export function passOn(message: Message, { assigner, poller }: Hearers): void {
  if (message.kind === 'changed') assigner?.changed(message.state)
  else if (message.kind === 'freed') assigner?.freed()
  else {
    if (message.kind === 'rebalance') assigner?.rebalanceSoon()
    poller?.hear(message)
  }
}
