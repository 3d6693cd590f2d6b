import type { PoolClient } from 'pg'
import { LockstepError } from '../../errors.ts'

type Query = (...values: unknown[]) => unknown

/** The client of a handler's transaction, while the handler has it. */
export interface LentTransaction {
  readonly tx: PoolClient
  /** From now on, the client refuses every query. */
  end(): void
}

/**
 * Lends a client to one handler. A query sent after that, by a promise that no one awaited, would run in the next
 * transaction of the session: it would be lost with that, or break it. So would a query after a release in the middle of
 * the transaction, by a function that releases the client it is given.
 */
export function lend(client: PoolClient): LentTransaction {
  let over = false
  const query: Query = (...values) => (over ? refuse(values) : (client.query as Query)(...values))
  const own: Partial<Record<string | symbol, unknown>> = { query, release: keep, end: async () => keep() }
  const tx = new Proxy(client, { get: (target, key) => own[key] ?? Reflect.get(target, key) })
  return {
    tx,
    end() {
      over = true
    },
  }
}

function keep(): never {
  throw new LockstepError(
    'LOCKSTEP_TRANSACTION_LENT',
    '`context.tx` is lent to the handler: leave its COMMIT and ROLLBACK, release() and end() to the worker',
  )
}

/** Reports the error as the driver would: to the callback, if there is one. */
function refuse(values: readonly unknown[]): Promise<never> | undefined {
  const error = new LockstepError(
    'LOCKSTEP_TRANSACTION_OVER',
    'the handler has ended, and its transaction with it: await everything that is sent through `context.tx`',
  )
  const callback = values.at(-1)
  if (typeof callback !== 'function') return Promise.reject(error)
  process.nextTick(callback as (error: Error) => void, error)
  return undefined
}
