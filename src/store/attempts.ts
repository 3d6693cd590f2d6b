import { type RawBuilder, sql } from 'kysely'

/** A failed attempt to perform a job. */
export interface FailedAttempt {
  /** When the failure was stored, by the server's clock; for a crash, when it was noticed. */
  readonly at: Date
  /**
   * `timeout`: the handler outlived its queue's `timeout`. `crash`: the process died, or its connection was lost, so that
   * nothing else is known. After too many of them the job fails, which is a `failure` of its own (`maxCrashes`). `lease`: the
   * lease of a consumer ended before the job was settled.
   */
  readonly kind: 'failure' | 'timeout' | 'crash' | 'lease'
  /** The job's, after this attempt: 0 after its first failure. A crash leaves it as it was. */
  readonly retryCount: number
  /**
   * The text that was stored: by default stack and causes. Of each but the last failure, 2,000 characters at most. Null for a
   * crash.
   */
  readonly error: string | null
}

/** As `shown_attempts` has it. */
interface ShownAttempt {
  readonly at: string
  readonly kind: FailedAttempt['kind']
  readonly retry_count: number
  readonly error: string | null
}

/** The attempts of the row `alias`, or null if nobody asks for them: they may be long. */
export function shownAttempts(
  schema: string,
  alias: string,
  asked: boolean,
): RawBuilder<ShownAttempt[] | null> {
  if (!asked) return sql`null::jsonb`
  return sql`${sql.id(schema, 'shown_attempts')}(${sql.ref(`${alias}.attempts`)}, ${sql.ref(`${alias}.error`)})`
}

/** As a property of what was found, if it was asked for. */
export function attemptsIn(shown: readonly ShownAttempt[] | null): { attempts?: readonly FailedAttempt[] } {
  if (shown === null) return {}
  return {
    attempts: shown.map(({ at, kind, retry_count: retryCount, error }) => ({
      at: new Date(at),
      kind,
      retryCount,
      error,
    })),
  }
}
