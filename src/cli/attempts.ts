import { type Command, Option } from 'commander'
import type { FailedAttempt } from '../index.ts'
import { count, excerpt, table, write } from './output.ts'

export interface AttemptsFlags {
  readonly attempts?: boolean
}

export function withAttempts(command: Command): Command {
  return command.addOption(new Option('--attempts', 'also show the last failed attempts, the newest first'))
}

export interface Tried {
  readonly id: string
  readonly attempts?: readonly FailedAttempt[]
}

/** A table of the failed attempts, if they were asked for and there are any. */
export function writeAttempts(items: readonly Tried[]): void {
  const rows = items.flatMap(({ id, attempts = [] }) =>
    attempts.map(({ at, kind, retryCount, error }) => [
      excerpt(id, 40),
      at.toISOString(),
      kind,
      count(retryCount),
      excerpt(error?.split('\n')[0] ?? '', 100),
    ]),
  )
  const columns = [
    { head: 'id' },
    { head: 'attempt' },
    { head: 'kind' },
    { head: 'retries', right: true },
    { head: 'error' },
  ]
  if (rows.length > 0) write(table(columns, rows))
}
