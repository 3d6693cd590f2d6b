import { ignoreRejection } from './promises.ts'

/** Matches pino and most loggers for Node: fields first, message second. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The default: logs only warnings and errors. */
export const consoleLogger: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => console.warn('pg-lockstep: %s', message, fields),
  error: (fields, message) => console.error('pg-lockstep: %s', message, fields),
}

/** Swallows the logger's own errors: a log message must not break the work that it reports. */
export function unfailing(logger: Logger): Logger {
  const safely = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      ignoreRejection(logger[level](fields, message))
    } catch {}
  }
  const own: Logger = {
    debug: safely('debug'),
    info: safely('info'),
    warn: safely('warn'),
    error: safely('error'),
  }
  // The given logger may have more methods, which a handler may use.
  return Object.assign(Object.create(logger), own)
}

/** For messages that no one can read any more. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
