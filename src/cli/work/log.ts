import { inspect } from 'node:util'
import pino from 'pino'
import { describeError } from '../../errors.ts'
import type { Logger, Worker } from '../../index.ts'
import { colorsFor, duration, escapeJson, excerpt, plural, printable } from '../output.ts'

/** Whether the log is JSON lines. */
export function logsJson(json: boolean): boolean {
  return json || !process.stdout.isTTY
}

/** JSON lines on stdout, or short text if that is a terminal. Writes at once, since the process may end at any time. */
export function createLogger(json: boolean): Logger {
  const level = process.env.LOCKSTEP_LOG_LEVEL ?? 'info'
  if (!logsJson(json)) return textLogger()
  const stdout = pino.destination({ fd: 1, sync: true })
  const escaped = { write: (line: string) => stdout.write(escapeJson(line)) }
  return pino({ level, base: { pid: process.pid } }, escaped) as Logger
}

/** The message itself says the same. */
const SILENT_FIELDS = ['event']

function textLogger(): Logger {
  const { dim, red, yellow } = colorsFor(process.stdout)
  const line = (paint: (text: string) => string) => (fields: object, message: string) => {
    const shown = Object.entries(fields)
      .filter(([key]) => !SILENT_FIELDS.includes(key))
      .map(([key, value]) => `${printable(key)}=${excerpt(textOf(value), 200)}`)
    const time = new Date().toISOString().slice(11, 23)
    process.stdout.write(`${dim(time)} ${paint(printable(message))} ${dim(shown.join(' '))}\n`)
  }
  const plain = (text: string) => text
  const isLevelEnabled = (level: string) => level !== 'debug'
  return { debug() {}, info: line(plain), warn: line(yellow), error: line(red), isLevelEnabled }
}

/** A handler may log a value that JSON can't express. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return inspect(value)
  }
}

const SUMMARY_EVERY = 10_000

/** Logs notable events, and a summary of the rest. Returns a function that logs a last summary and stops. */
export function logWorker(worker: Worker, logger: Logger): () => void {
  let shards = -1
  worker.on('rebalanced', (event) => {
    if (event.shards === shards) return
    shards = event.shards
    logger.info({ event: 'rebalanced', shards }, `serving ${plural(shards, 'shard')}`)
  })
  worker.on('failed', ({ error, ...event }) =>
    logger.warn({ event: 'failed', ...event, error: describeError(error) }, 'a round failed'),
  )
  worker.on('died', ({ queue, id, error }) =>
    logger.error({ event: 'died', queue, id, error: describeError(error) }, 'a payload went to the morgue'),
  )
  worker.on('dropped', ({ queue, id, error }) =>
    logger.warn(
      { event: 'dropped', queue, id, error: describeError(error) },
      'a handler had its payloads dropped',
    ),
  )
  worker.on('snoozed', ({ error: _, ...event }) =>
    logger.debug({ event: 'snoozed', ...event }, 'a handler asked for its round to come later'),
  )
  worker.on('expired', (event) =>
    logger.debug({ event: 'expired', ...event }, 'payloads had expired, and are gone'),
  )
  worker.on('rescued', (event) =>
    logger.warn({ event: 'rescued', ...event }, 'a job was taken over from a process that died'),
  )
  worker.on('refused', (event) =>
    logger.warn(
      { event: 'refused', ...event },
      'an outcome came too late: the job belongs to another process',
    ),
  )
  worker.on('leaseLost', (event) => logger.error({ event: 'leaseLost', ...event }, 'the lease was lost'))
  return summarise(worker, logger)
}

function summarise(worker: Worker, logger: Logger): () => void {
  let [processed, failed, since] = [0, 0, performance.now()]
  worker.on('completed', ({ ids }) => {
    processed += ids.length
  })
  worker.on('failed', () => {
    failed += 1
  })
  const summary = () => {
    const ms = Math.round(performance.now() - since)
    since = performance.now()
    if (processed + failed === 0) return
    logger.info(
      { event: 'summary', processed, failed, ms },
      `${processed} processed, ${failed} failed in ${duration(ms)}`,
    )
    processed = 0
    failed = 0
  }
  const timer = setInterval(summary, SUMMARY_EVERY)
  timer.unref()
  return () => {
    clearInterval(timer)
    summary()
  }
}
