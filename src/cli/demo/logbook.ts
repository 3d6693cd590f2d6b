import { writeSync } from 'node:fs'
import type { Update } from './feed.ts'

/**
 * What the processes of the demo note as it happens, for a judge who does not trust the database.
 * `at` is in ms of the clock that all processes of a machine share, `committedAt` in ms of the server's clock.
 */
export type Entry =
  | { readonly kind: 'ready' }
  /** Committed; `committedAt` was read after the commit. */
  | { readonly kind: 'sent'; readonly updates: readonly Update[]; readonly committedAt: number }
  | { readonly kind: 'rolledBack'; readonly updates: readonly Update[] }
  | { readonly kind: 'begin'; readonly run: string; readonly orders: readonly string[]; readonly at: number }
  | { readonly kind: 'end'; readonly run: string; readonly at: number }
  /** ms from the time an order was due until its handler had begun. */
  | { readonly kind: 'pickUp'; readonly wait: number; readonly rescued: boolean }
  | { readonly kind: 'deadlock' }
  | { readonly kind: 'warning'; readonly message: string }

/** The file descriptor of the pipe that each process of the demo gets. */
export const LOGBOOK = 3

/** Synchronous: the entry is in the kernel when this returns, so it survives a SIGKILL. */
export function write(entry: Entry): void {
  writeSync(LOGBOOK, `${JSON.stringify(entry)}\n`)
}

/** ms of a clock that never steps and that all processes of this machine share. */
export function sharedClock(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e3 + nanoseconds / 1e6
}
