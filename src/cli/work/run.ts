import { describeError } from '../../errors.ts'
import {
  attachSignals,
  Lockstep,
  type Logger,
  type Queue,
  type WorkConfiguration,
  type Worker,
} from '../../index.ts'
import { settlesWithin } from '../../promises.ts'
import { tellLastWordsTo } from '../../worker/membership/last-words.ts'
import { checkConnection } from '../connection.ts'
import { EXIT } from '../exit.ts'
import { configured, STOP_TIMEOUT } from './configuration.ts'
import { drained } from './drain.ts'
import { type Rank, schedulerOf, servesAPart, splitterOf, type WorkFlags } from './flags.ts'
import { healthAddress, serveHealth } from './health-server.ts'
import { createLogger, logsJson, logWorker } from './log.ts'
import { answerParent, tellDismissed } from './parent.ts'
import { loadModules, selectQueues } from './queues.ts'
import { SUPERVISOR } from './supervisor.ts'

/** Works in this process until a signal stops it or the queues are drained; resolves to the exit code. */
export async function runWorker(
  flags: WorkFlags,
  rank: Rank,
  onReady: () => void = () => {},
): Promise<number> {
  const json = flags.json ?? false
  const ownLogger = createLogger(json)
  const log = logsJson(json) ? { fd: 1, json: true } : { fd: 2, json: false }
  tellLastWordsTo(log, ...(rank.of > 1 ? [SUPERVISOR] : []))
  const connection = checkConnection(flags)
  const loaded = await loadModules(flags.require)
  const queues = selectQueues(loaded.queues, flags.queues?.split(','))
  const configuration = await configured(loaded.configures, { queues, rank: rank.index })
  try {
    return await work({
      connection,
      flags,
      rank,
      queues,
      configuration,
      logger: configuration.logger ?? ownLogger,
      onReady,
    })
  } finally {
    await tearDown(configuration, ownLogger)
  }
}

interface Host {
  readonly connection: ReturnType<typeof checkConnection>
  readonly flags: WorkFlags
  readonly rank: Rank
  readonly queues: readonly Queue[]
  readonly configuration: WorkConfiguration
  readonly logger: Logger
  readonly onReady: () => void
}

async function work(host: Host): Promise<number> {
  const { connection, flags, rank, queues, configuration, logger, onReady } = host
  const { instrumentation } = configuration
  const lockstep = new Lockstep({ ...connection, logger, instrumentation })
  const worker = createWorker(lockstep, queues, flags, rank, configuration)
  configuration.onWorker?.(worker)
  // The parent answers for all.
  const health = rank.of === 1 ? healthAddress(flags) : undefined
  if (health) await serveHealth(health, () => worker.health(), logger)
  answerParent(worker)
  stopOnRequest(worker)
  const endLog = logWorker(worker, logger)
  const endWatch = refuseEarlyExit(logger)
  // Handlers may run, and kill the process, before the worker has fully started.
  worker.once('started', onReady)
  const starting = worker.start()
  const stopped = Promise.race([untilSignal(worker, starting, logger), untilOutdated(worker, endWatch)])
  // If the worker can't start, the exit code says why.
  await starting.catch((error) => {
    endWatch()
    throw error
  })
  const names = queues.map(({ name }) => name)
  const { processId } = worker
  const slots = flags.slots ?? 5
  logger.info({ event: 'started', processId, queues: names, slots }, `serving ${names.join(', ')}`)
  onReady()
  if (flags.drain) {
    if (servesAPart(flags.splitter)) logger.warn({ event: 'drain' }, PART_OF_SHARDS)
    stopWhenDrained(lockstep, worker, names, logger)
  }
  const code = await stopped
  endWatch()
  endLog()
  logger.info({ event: 'stopped', processId: worker.processId }, 'stopped')
  await lockstep.close()
  return code
}

const PART_OF_SHARDS =
  'this node serves only part of the shards: the queues are drained once all nodes have drained theirs'

/** Codes with which the worker itself exits: it has released its jobs in work, or logged what becomes of them. */
const OWN_CODES: readonly number[] = [EXIT.failed, EXIT.interrupted, EXIT.terminated]

/**
 * A handler that calls `process.exit()` ends the process with jobs in work. The exit code must not suggest that the worker
 * stopped cleanly, drained its queues, or is outdated.
 */
function refuseEarlyExit(logger: Logger): () => void {
  const refuse = (code: number) => {
    if (OWN_CODES.includes(code)) return
    logger.error(
      { event: 'exit' },
      `process.exit(${code}) was called while the worker ran: the jobs in work have crashed`,
    )
    process.exitCode = EXIT.failed
  }
  process.on('exit', refuse)
  return () => void process.off('exit', refuse)
}

/** A tear-down that fails or hangs must not keep the process. */
async function tearDown({ stop }: WorkConfiguration, logger: Logger): Promise<void> {
  if (!stop) return
  const stopped = (async () => stop())()
  const problem = (await settlesWithin(stopped, STOP_TIMEOUT))
    ? await stopped.then(
        () => undefined,
        (error) => `it failed: ${describeError(error)}`,
      )
    : `it took ${STOP_TIMEOUT} ms`
  if (problem) logger.error({ event: 'stop', error: problem }, 'stop() of the configuration did not end well')
}

function createWorker(
  lockstep: Lockstep,
  queues: readonly Queue[],
  flags: WorkFlags,
  rank: Rank,
  configuration: WorkConfiguration,
): Worker {
  const { slots, lease, poll, shutdownTimeout, scheduler, splitter } = flags
  const { middleware, formatError } = configuration
  return lockstep.createWorker({
    queues,
    slots,
    lease,
    poll,
    shutdownTimeout,
    scheduler: scheduler === undefined ? configuration.scheduler : schedulerOf(scheduler, queues),
    splitter: splitter === undefined ? configuration.splitter : splitterOf(splitter, rank),
    middleware,
    formatError,
    killOnLeaseEnd: true,
  })
}

/**
 * Resolves to the exit code when a signal has stopped the worker. Jobs may be in work before the worker has fully started,
 * so signals are handled from the beginning, but wait for the start. If a handler does not end, this ends the process.
 */
function untilSignal(worker: Worker, starting: Promise<void>, logger: Logger): Promise<number> {
  const once = {
    report: () => worker.report(),
    releaseNow: (timeout?: number) => worker.releaseNow(timeout),
    quiet: () => starting.then(() => worker.quiet()),
    stop: () => starting.then(() => worker.stop()),
  }
  return new Promise((resolve) => {
    attachSignals(once, logger, (clean) => {
      if (!clean) process.exit(EXIT.failed)
      resolve(EXIT.ok)
    })
  })
}

/** Resolves to the exit code when a later release's definitions have stopped the worker. */
function untilOutdated(worker: Worker, endWatch: () => void): Promise<number> {
  return new Promise((resolve) => {
    worker.once('outdated', async () => {
      if (await worker.stop()) return resolve(EXIT.outdated)
      // Nothing may be awaited between the release and the end of the process.
      worker.releaseNow()
      endWatch()
      process.exit(EXIT.outdated)
    })
  })
}

/** The worker stops by itself; the signal ends this process in the same way as if someone here had sent it. */
function stopOnRequest(worker: Worker): void {
  worker.on('requested', ({ request }) => {
    if (request !== 'stop') return
    tellDismissed()
    process.kill(process.pid, 'SIGTERM')
  })
}

function stopWhenDrained(lockstep: Lockstep, worker: Worker, names: readonly string[], logger: Logger): void {
  void drained(lockstep, worker, names, logger).then(() => {
    logger.info({ event: 'drained' }, 'the queues are drained')
    process.kill(process.pid, 'SIGTERM')
  })
}
