import { Dealer, type DealerOptions } from './assignment/assigner.ts'
import type { ServedQueues } from './assignment/served-queues.ts'
import type { ShardLocks } from './assignment/shard-locks.ts'
import { Lookout, type LookoutOptions } from './discovery/poller.ts'
import type { WorkerEmitter } from './events.ts'
import type { Identity } from './membership/membership.ts'
import type { Pools } from './membership/pools.ts'
import type { WorkerHome, WorkerSettings } from './options.ts'
import { describer } from './performing/description.ts'
import { Serving, type ServingOptions } from './performing/executor.ts'
import type { Running } from './performing/in-flight.ts'
import type { ServerClock } from './schedule/server-clock.ts'
import type { Timetable } from './schedule/timetable.ts'
import type { Exchange } from './settling/batcher.ts'
import type { Settlements } from './settling/completer.ts'

/** What a worker has from its making on, and the parts made at its start are given of it. */
export interface Parts {
  readonly settings: WorkerSettings
  readonly home: WorkerHome
  readonly events: WorkerEmitter
  readonly pools: Pools
  readonly locks: ShardLocks
  readonly clock: ServerClock
  readonly timetable: Timetable
  readonly identity: Identity
  readonly running: Running
  readonly exchange: Exchange
  readonly settlements: Settlements
}

/** What most parts need. */
function commonTo({ home, events, pools, locks, clock, timetable, identity }: Parts) {
  return {
    database: pools.own,
    stranded: pools.stranded,
    logger: home.logger,
    locks,
    clock,
    timetable,
    processId: () => identity.processId,
    onFailure: (error: unknown) => void events.emit('failure', error),
  }
}

export function createLookout(
  parts: Parts,
  queues: ServedQueues,
  hooks: Pick<LookoutOptions, 'hears'>,
): Lookout {
  return new Lookout({ ...commonTo(parts), queues, poll: parts.settings.poll, ...hooks })
}

export function createDealer(
  parts: Parts,
  queues: ServedQueues,
  hooks: Pick<
    DealerOptions,
    'surveys' | 'hears' | 'onOutlived' | 'onDropped' | 'onDealt' | 'onChanged' | 'onGone' | 'onOutdated'
  >,
): Dealer {
  const { splitter, slots, heartbeat } = parts.settings
  const alive = () => parts.identity.alive
  return new Dealer({ ...commonTo(parts), queues, splitter, slots, heartbeat, alive, ...hooks })
}

export function createServing(
  parts: Parts,
  lockTimeout: number,
  hooks: Pick<ServingOptions, 'ready' | 'onLostAnswer'>,
): Serving {
  const { settings, home, events, pools, exchange, settlements, identity, running } = parts
  const { middleware, poll, slots, formatError } = settings
  const { logger } = home
  return new Serving({
    ...commonTo(parts),
    lockTimeout,
    batchSettings: { database: pools.handlers, middleware, logger, lockTimeout },
    describe: describer(formatError, logger),
    exchange,
    settlements,
    identity,
    running,
    events,
    poll,
    slots,
    ...hooks,
  })
}
