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

/** Where nobody is left to read it. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
