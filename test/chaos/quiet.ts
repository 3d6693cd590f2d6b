import type { Logger } from '../../src/logger.ts'

/** For those whose warnings are what is asked for. */
export const QUIET: Logger = { debug() {}, info() {}, warn() {}, error() {} }
