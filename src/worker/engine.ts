import { Assigner, type AssignerOptions } from './assignment/assigner.ts'
import type { ServedQueues } from './assignment/served-queues.ts'
import type { ShardLocks } from './assignment/shard-locks.ts'
import { Poller, type PollerOptions } from './discovery/poller.ts'
import type { WorkerEmitter } from './events.ts'
import { Maintainer } from './maintenance/maintainer.ts'
import { Strays } from './maintenance/strays.ts'
import { Sweeping } from './maintenance/sweeping.ts'
import { Zombies } from './maintenance/zombies.ts'
import type { Membership } from './membership/membership.ts'
import type { WorkerHome, WorkerSettings } from './options.ts'
import { describer } from './performing/description.ts'
import { Executor, type ExecutorOptions } from './performing/executor.ts'
import type { InFlight } from './performing/in-flight.ts'
import type { Pools } from './pools.ts'
import type { ServerClock } from './schedule/server-clock.ts'
import type { Timetable } from './schedule/timetable.ts'
import type { Batcher } from './settling/batcher.ts'
import type { Completer } from './settling/completer.ts'

/** What a worker has from its making on, and the parts made at its start are given of it. */
export interface Parts {
  readonly settings: WorkerSettings
  readonly home: WorkerHome
  readonly events: WorkerEmitter
  readonly pools: Pools
  readonly locks: ShardLocks
  readonly clock: ServerClock
  readonly timetable: Timetable
  readonly membership: Membership
  readonly inFlight: InFlight
  readonly batcher: Batcher
  readonly completer: Completer
}

/** What most parts need. */
function commonTo({ home, events, pools, locks, clock, timetable, membership }: Parts) {
  return {
    database: pools.own,
    stranded: pools.stranded,
    logger: home.logger,
    locks,
    clock,
    timetable,
    processId: () => membership.processId,
    onFailure: (error: unknown) => void events.emit('failure', error),
  }
}

export function createPoller(
  parts: Parts,
  queues: ServedQueues,
  hooks: Pick<PollerOptions, 'hears'>,
): Poller {
  return new Poller({ ...commonTo(parts), queues, poll: parts.settings.poll, ...hooks })
}

/** What every worker does for all: a new kind goes into this list. */
export function createMaintainer(
  parts: Parts,
  hooks: { readonly onGone: () => void; readonly onRemoved: () => void },
): Maintainer {
  const { database, logger, onFailure } = commonTo(parts)
  const { rebalanceInterval } = parts.settings
  const all = [
    new Sweeping({ logger, rebalanceInterval, ...hooks }),
    new Zombies(logger, rebalanceInterval),
    new Strays(rebalanceInterval),
  ]
  return new Maintainer({ database, logger, all, onFailure })
}

export function createAssigner(
  parts: Parts,
  queues: ServedQueues,
  maintainer: Maintainer,
  hooks: Pick<
    AssignerOptions,
    'fullScans' | 'hears' | 'onOutlived' | 'onDropped' | 'onRebalanced' | 'onChanged' | 'onOutdated'
  >,
): Assigner {
  const { splitter, slots, rebalanceInterval } = parts.settings
  return new Assigner({
    ...commonTo(parts),
    queues,
    splitter,
    slots,
    rebalanceInterval,
    alive: () => parts.membership.alive,
    nextSight: () => maintainer.nextSight,
    onCompared(seen, askedAt, answeredAt) {
      parts.clock.set(seen.now, askedAt, answeredAt)
      maintainer.see(seen, answeredAt)
    },
    ...hooks,
  })
}

export function createExecutor(
  parts: Parts,
  lockTimeout: number,
  hooks: Pick<ExecutorOptions, 'ready' | 'onLostAnswer'>,
): Executor {
  const { settings, home, events, pools, batcher, completer, membership, inFlight } = parts
  const { middleware, poll, slots, formatError } = settings
  const { logger } = home
  return new Executor({
    ...commonTo(parts),
    lockTimeout,
    batchSettings: { database: pools.handlers, middleware, logger, lockTimeout },
    describe: describer(formatError, logger),
    batcher,
    completer,
    membership,
    inFlight,
    events,
    poll,
    slots,
    ...hooks,
  })
}
