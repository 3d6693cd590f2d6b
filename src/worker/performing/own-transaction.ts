import type { EventEmitter } from 'node:events'
import type { PoolClient } from 'pg'
import { LockstepError } from '../../errors.ts'
import { disconnect } from '../../postgres/connection.ts'
import type { Database } from '../../postgres/database.ts'
import { beginRound, newName } from '../../store/handler-transaction.ts'
import type { LentTransaction } from './lent-transaction.ts'
import { endsTransaction, kept, refuse } from './transaction-control.ts'

type Query = (...values: unknown[]) => unknown

/**
 * The codes with which a server or a pooler ends a session: after a time-out, because someone ends it, or in a crash. Codes
 * rather than messages, since messages are in the server's language.
 */
const LAST_WORDS = /^(08|25P0[34]|57P0)/

/** Runs `work` in a transaction of the worker's own, and commits. */
export async function inOwnTransaction<T>(
  database: Database,
  work: (lent: LentTransaction) => Promise<T>,
): Promise<T> {
  const name = newName()
  let own: OwnTransaction | undefined
  const lend = (client: PoolClient) => {
    own = new OwnTransaction(database, client, name)
    return work(own)
  }
  try {
    return await database.transaction(lend, { begin: beginRound(name), lends: true })
  } finally {
    own?.close()
  }
}

/**
 * A client that is lent to one handler. A query sent after that, by a promise that no one awaited, would run in the next
 * transaction of the session: it would be lost with that, or break it. So would a query after a release in the middle of
 * the transaction, by a function that releases the client it is given. And a library that is given the client may think
 * that it has to begin and commit transactions.
 */
class OwnTransaction implements LentTransaction {
  readonly tx: PoolClient
  readonly on: LentTransaction['on']
  readonly name: string
  number?: string
  #lost: Error | undefined
  #over = false
  readonly #client: PoolClient
  readonly #unhear: () => void

  constructor(database: Database, client: PoolClient, name: string) {
    this.name = name
    this.#client = client
    this.#unhear = this.#hear()
    this.on = { casts: 'none', run: (text, values) => database.query(text, [...values], client) }
    const query: Query = (...values) => {
      const refusal = this.#over ? over() : endsTransaction(values[0]) ? kept() : undefined
      return refusal ? refuse(values, refusal) : (client.query as Query)(...values)
    }
    const own: Partial<Record<string | symbol, unknown>> = {
      query,
      release: () => {
        throw kept()
      },
      end: async () => {
        throw kept()
      },
    }
    this.tx = new Proxy(client, { get: (target, key) => own[key] ?? Reflect.get(target, key) })
  }

  get lost(): Error | undefined {
    return this.#lost
  }

  /** A statement that is never answered (the connection is half-open) must not hold the handler for ever. */
  abort(): void {
    void disconnect(this.#client)
  }

  end(): void {
    this.#over = true
  }

  close(): void {
    this.#unhear()
  }

  /**
   * Notes why the connection is lost: the server's last words, between two statements or in the middle of one of the
   * handler's, or that it ended without any. A handler may swallow the error, and for later statements the driver only says
   * that there is no connection. If the session becomes ready for another statement, those were not its last words. Returns
   * a function that ends the watch.
   */
  #hear(): () => void {
    const { connection } = this.#client as PoolClient & { readonly connection?: EventEmitter }
    const lose = (error = new Error('the connection ended')) => {
      this.#lost ??= error
    }
    const hear = (error: Error & { readonly severity?: string; readonly code?: string }) => {
      if (error.severity === 'FATAL' || LAST_WORDS.test(error.code ?? '')) lose(error)
    }
    const end = () => lose()
    const goOn = () => {
      this.#lost = undefined
    }
    connection?.on('errorMessage', hear).on('readyForQuery', goOn).on('error', lose).on('end', end)
    return () =>
      connection?.off('errorMessage', hear).off('readyForQuery', goOn).off('error', lose).off('end', end)
  }
}

function over(): LockstepError {
  return new LockstepError(
    'LOCKSTEP_TRANSACTION_OVER',
    'the handler has ended, and its transaction with it: await everything that is sent through `context.tx`',
  )
}
