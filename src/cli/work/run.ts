import { Lockstep } from '../../lockstep.ts'
import type { Queue } from '../../queue.ts'
import { attachSignals } from '../../worker/signals.ts'
import type { Worker } from '../../worker/worker.ts'
import { checkConnection } from '../connection.ts'
import { EXIT } from '../exit.ts'
import { drained } from './drain.ts'
import { type Rank, schedulerOf, splitterOf, type WorkFlags } from './flags.ts'
import { createLogger, logWorker } from './log.ts'
import { loadQueues, selectQueues } from './queues.ts'

/** Works in this process until a signal, or the queues' end, stops it; resolves to the exit code. */
export async function runWorker(
  flags: WorkFlags,
  rank: Rank,
  onReady: () => void = () => {},
): Promise<number> {
  const logger = createLogger(flags.json ?? false)
  const connection = checkConnection(flags)
  const queues = selectQueues(await loadQueues(flags.require), flags.queues?.split(','))
  const lockstep = new Lockstep({ ...connection, logger })
  const worker = createWorker(lockstep, queues, flags, rank)
  const endLog = logWorker(worker, logger)
  await worker.start()
  const names = queues.map(({ name }) => name)
  const { processId } = worker
  logger.info(
    { event: 'started', processId, queues: names, slots: flags.slots ?? 5 },
    `serving ${names.join(', ')}`,
  )
  const stopped = untilStopped(lockstep, worker, names, flags, logger)
  onReady()
  const clean = await stopped
  endLog()
  logger.info({ event: 'stopped', processId: worker.processId }, 'stopped')
  await lockstep.close()
  return clean ? EXIT.ok : EXIT.failed
}

function createWorker(lockstep: Lockstep, queues: readonly Queue[], flags: WorkFlags, rank: Rank): Worker {
  const { slots, lease, poll, shutdownTimeout, scheduler, splitter } = flags
  return lockstep.createWorker({
    queues,
    slots,
    lease,
    poll,
    shutdownTimeout,
    scheduler: schedulerOf(scheduler, queues),
    splitter: splitterOf(splitter, rank),
    killOnLeaseEnd: true,
  })
}

/** Whether every handler ended. One that did not may be giving way to its successor: then the process ends here. */
async function untilStopped(
  lockstep: Lockstep,
  worker: Worker,
  names: readonly string[],
  { drain }: WorkFlags,
  logger: ReturnType<typeof createLogger>,
): Promise<boolean> {
  const ended = new AbortController()
  return new Promise((resolve) => {
    const stopped = (clean: boolean) => {
      if (!clean) process.exit(EXIT.failed)
      ended.abort()
      resolve(clean)
    }
    attachSignals(worker, logger, stopped)
    if (!drain) return
    void drained(lockstep, worker, names, logger, ended.signal).then(() => {
      if (ended.signal.aborted) return
      logger.info({ event: 'drained' }, 'nothing is left')
      process.kill(process.pid, 'SIGTERM')
    })
  })
}
