import { OptionError } from './errors.ts'
import { nameOf } from './options.ts'
import { ignoreRejection } from './promises.ts'

/** Matches pino and most loggers for Node: fields first, message second. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** Whether lines of a level are written. Without it, lines at `debug` are made even if no one sees them. */
  isLevelEnabled?(level: string): boolean
}

/** The default: logs only warnings and errors. */
export const consoleLogger: Logger = {
  isLevelEnabled: (level) => level === 'warn' || level === 'error',
  debug() {},
  info() {},
  warn: (fields, message) => console.warn('pg-lockstep: %s', message, fields),
  error: (fields, message) => console.error('pg-lockstep: %s', message, fields),
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const

/** @throws OptionError that names the methods it lacks */
export function checkLogger(logger: Logger, what: string): Logger {
  const missing = LEVELS.filter((level) => typeof Object(logger)[level] !== 'function')
  if (missing.length === 0) return logger
  const lacking = missing.map((level) => `${level}()`).join(', ')
  throw new OptionError(
    `${what} must have the methods debug, info, warn and error: ${nameOf(logger)} has no ${lacking}`,
  )
}

/** Swallows the logger's own errors: a log message must not break the work that it reports. */
export function unfailing(logger: Logger): Logger {
  const safely = (level: Exclude<keyof Logger, 'isLevelEnabled'>) => (fields: object, message: string) => {
    try {
      ignoreRejection(logger[level](fields, message))
    } catch {}
  }
  const own: Logger = {
    debug: safely('debug'),
    info: safely('info'),
    warn: safely('warn'),
    error: safely('error'),
    ...(logger.isLevelEnabled && { isLevelEnabled: (level) => logger.isLevelEnabled!(level) }),
  }
  // The given logger may have more methods, which a handler may use.
  return Object.assign(Object.create(logger), own)
}

/** Whether it's worth making lines at `debug`. */
export function debugs(logger: Logger): boolean {
  try {
    return logger.isLevelEnabled?.('debug') ?? true
  } catch {
    return true
  }
}

/** For messages that no one can read any more. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  isLevelEnabled: () => false,
}
