import { constants } from 'node:os'
import { checkLogger, consoleLogger, type Logger, unfailing } from '../logger.ts'
import type { Worker } from './worker.ts'

/**
 * ms that releasing running jobs may take when a second signal asks to stop at once. It usually takes a fifth of a second.
 */
const HURRIED_TIMEOUT = 3_000

/** The part of a Worker that signals control. */
export type SignalledWorker = Pick<Worker, 'stop' | 'quiet' | 'report' | 'releaseNow'>

type Signal = 'SIGTERM' | 'SIGINT' | 'SIGTSTP' | 'SIGTTIN'

/**
 * Lets signals control a worker (R15). SIGTERM and SIGINT stop it, a second one at once; SIGTSTP makes it quiet; SIGTTIN
 * logs what every slot is doing, and since when.
 *
 * `onStopped` is called when a signal has stopped the worker, with whether every handler ended. By default, if a handler
 * has not ended, the process exits with 1 after its jobs were released; otherwise the process is left to end by itself.
 * Returns a function that detaches the signals.
 * @throws OptionError if the logger lacks a method
 */
export function attachSignals(
  worker: SignalledWorker,
  given: Logger = consoleLogger,
  onStopped: (clean: boolean) => void = (clean) => {
    if (!clean) process.exit(1)
  },
): () => void {
  // A log that fails must not keep jobs from being released.
  const logger = unfailing(checkLogger(given, 'attachSignals: logger'))
  let stopping = false
  const stop = async (signal: Signal) => {
    if (stopping) {
      logger.warn({ event: 'stopping', signal }, 'stopping at once')
      worker.releaseNow(HURRIED_TIMEOUT)
      process.exit(128 + constants.signals[signal])
    }
    stopping = true
    logger.info({ event: 'stopping', signal, working: worker.report().length }, 'stopping')
    const clean = await worker.stop().catch((error: Error) => {
      logger.error({ event: 'stopping', error: error.message }, 'stopping failed')
      return false
    })
    // Nothing may be awaited between releasing the jobs and the end of the process.
    if (!clean) releaseAtEnd(worker, logger)
    onStopped(clean)
  }
  const handlers: Record<Signal, () => void> = {
    SIGTERM: () => stop('SIGTERM'),
    SIGINT: () => stop('SIGINT'),
    SIGTSTP: () => {
      logger.info({ event: 'quiet' }, 'quiet: taking nothing new')
      worker.quiet().catch(() => {})
    },
    SIGTTIN: () => logSlots(worker, logger),
  }
  const known = Object.entries(handlers).filter(([signal]) => signal in constants.signals)
  for (const [signal, handle] of known) process.on(signal, handle)
  return () => {
    for (const [signal, handle] of known) process.off(signal, handle)
  }
}

/** The last step of a worker whose handlers ignore their signals. The process must exit right after it. */
function releaseAtEnd(worker: SignalledWorker, logger: Logger): void {
  const slots = worker.report()
  logger.error({ event: 'stopping', slots }, 'handlers ignore their signals: releasing their jobs')
  if (worker.releaseNow()) return
  logger.error({ event: 'stopping' }, 'they could not be released: they wait until the lease has ended')
}

function logSlots(worker: SignalledWorker, logger: Logger): void {
  const slots = worker.report()
  logger.info({ event: 'slots', working: slots.length }, `${slots.length} in work`)
  for (const { slot, queue, shard, ids, since } of slots.toSorted((a, b) => a.slot - b.slot)) {
    const ms = Date.now() - since.getTime()
    logger.info({ event: 'slot', slot, queue, shard, ids, since, ms }, `slot ${slot} in work for ${ms} ms`)
  }
}
