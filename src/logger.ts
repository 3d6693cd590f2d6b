import { ignoreRejection } from './promises.ts'

/** What pino, and most loggers for Node, look like: fields first, message second. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The default: silent but for what somebody has to know. */
export const consoleLogger: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => console.warn('pg-lockstep: %s', message, fields),
  error: (fields, message) => console.error('pg-lockstep: %s', message, fields),
}

/** One whose errors reach nobody: what is told in passing must not break what it is told of. */
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
  // A handler may know more of its logger than we do.
  return Object.assign(Object.create(logger), own)
}

/** Where nobody is left to read it. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
