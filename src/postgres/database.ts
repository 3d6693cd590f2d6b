import { createHash } from 'node:crypto'
import type pg from 'pg'
import {
  hasBroken,
  hasCode,
  isOfSession,
  isOurs,
  isRefusedLock,
  mayLive,
  toCallError,
  toConnectError,
  toLockstepError,
  toStatementError,
} from './failure.ts'
import { quoteIdentifier } from './schema-name.ts'
import { renewalOf } from './session.ts'
import { TYPES } from './types.ts'

/** Anything that runs a statement with parameters $1, $2 …, as a `pg` client or pool does. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

export interface Transaction {
  /** Statements to send with the BEGIN. */
  readonly begin?: string
  /**
   * Others' statements run in it. What they leave in the session is reset when its next transaction begins, so a pool that
   * lends sessions must do nothing else. Default false.
   */
  readonly lends?: boolean
}

export interface Asking {
  /** Extra ms that the answer may take. Default 0. */
  readonly longer?: number
  /** Return rows as lists of columns, which is cheaper for many rows. Default false. */
  readonly lists?: boolean
  /** The statement commits a transaction: if the connection breaks, it may have been done. Default false. */
  readonly commits?: boolean
  /** Others' statements decide whether it succeeds, so what the server says is passed on as it is. Default false. */
  readonly others?: boolean
  /** It sets its own time for locks: that it was refused one says nothing of its session. Default false. */
  readonly boundsLocks?: boolean
}

/**
 * Handles the error of a connection that breaks between two statements; the next statement reports it. Without a listener it
 * would end the process, and an application's pool does not listen while the connection is lent out.
 */
function ignore(): void {}

const names = new Map<string, string>()

/** Unique to the text: behind a pooler, other clients use the same sessions. */
function statementName(text: string): string {
  let name = names.get(text)
  if (!name) {
    name = `lockstep_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
    names.set(text, name)
  }
  return name
}

/** The prepared statement is missing or exists already, or its result type has changed because of a migration. */
function isAboutItsName(error: unknown): boolean {
  return (
    hasCode(error, '26000', '42P05') ||
    (hasCode(error, '0A000') && (error as Error).message.includes('cached plan'))
  )
}

/** A pool and a schema: the store's access to the server. Turns errors that we know into our own. */
export class Database {
  readonly pool: pg.Pool
  readonly schema: string
  readonly prefix: string
  readonly #callTimeout: number | undefined
  /** Texts of calls, by verb and function. */
  readonly #texts = new Map<string, string>()
  /** Clients of sessions in which others' statements have run. */
  readonly #lent = new WeakSet<object>()
  /** Whether a single statement would not run at READ COMMITTED. */
  #wrap = false
  #names = true

  /** `callTimeout`: ms after which our own statement counts as failed, since a half-open connection never answers. */
  constructor(pool: pg.Pool, schema: string, callTimeout?: number) {
    this.pool = pool
    this.schema = schema
    this.prefix = quoteIdentifier(schema)
    this.#callTimeout = callTimeout
  }

  /**
   * From now on, every single statement runs in its own READ COMMITTED transaction. Behind a pooler, a session's default
   * level must stay as it is, and at another level even a statement that only reads could take part in others' conflicts.
   */
  wrap(): void {
    this.#wrap = true
  }

  async query<Row>(
    text: string,
    values: unknown[] = [],
    on: Queryable = this.pool,
    asking: Asking = {},
    name?: string,
  ): Promise<Row[]> {
    if (this.#wrap && on === this.pool)
      return this.transaction((client) => this.query<Row>(text, values, client, asking))
    try {
      const query_timeout = this.#callTimeout && this.#callTimeout + (asking.longer ?? 0)
      const rowMode = asking.lists ? 'array' : undefined
      const query = { text, values, types: TYPES, name, query_timeout, rowMode }
      const { rows } = await (on === this.pool
        ? this.queryPool(query, asking)
        : (on as pg.ClientBase).query(query))
      return rows as Row[]
    } catch (error) {
      if (asking.others && mayLive(error)) throw error
      throw on === this.pool || asking.commits ? toCallError(error) : toStatementError(error)
    }
  }

  /**
   * As the pool does it, which also closes each connection whose statement the server has refused. It's kept where that was by a function
   * of ours, or for a lock that was waited for no longer than asked: many may be refused so, in a good session. Anything else may be because
   * of the session, such as a read-only server, a role or a transaction that somebody has left behind, or a statement that the driver takes
   * for prepared.
   */
  protected async queryPool(
    query: pg.QueryConfig,
    { boundsLocks = false }: Asking,
  ): Promise<{ rows: unknown[] }> {
    const client = await this.#take()
    let broken: Error | undefined
    try {
      return await client.query(query)
    } catch (error) {
      if (!isOurs(error) && !(boundsLocks && isRefusedLock(error))) broken = error as Error
      throw error
    } finally {
      this.release(client, broken)
    }
  }

  /**
   * Runs a statement that each connection of the pool parses once. A pooler may give the next call a session that does not
   * know the statement, or knows it already: then nothing was done, and from then on statements are sent without names.
   */
  async prepared<Row>(text: string, values: unknown[], asking?: Asking): Promise<Row[]> {
    if (!this.#names) return this.query<Row>(text, values, this.pool, asking)
    try {
      return await this.query<Row>(text, values, this.pool, asking, statementName(text))
    } catch (error) {
      if (!isAboutItsName(error)) throw error
      this.#names = false
      return this.prepared<Row>(text, values, asking)
    }
  }

  /** Calls a function of the schema, in a READ COMMITTED transaction. */
  async call<Row>(name: string, values: unknown[], on?: Queryable, asking?: Asking): Promise<Row[]> {
    const text = this.#callText('SELECT * FROM', name, values.length)
    if (on) return this.query<Row>(text, values, on, asking)
    return this.alone<Row>(text, values, asking)
  }

  /** Calls a function and ignores its result. */
  async run(name: string, values: unknown[], on?: Queryable): Promise<void> {
    const text = this.#callText('SELECT', name, values.length)
    await (on ? this.query(text, values, on) : this.alone(text, values))
  }

  /** Runs a statement in its own READ COMMITTED transaction, which a single statement is on most servers anyway. */
  async alone<Row>(text: string, values: unknown[], asking?: Asking): Promise<Row[]> {
    try {
      return await this.prepared<Row>(text, values, asking)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_ISOLATION')) throw error
      this.wrap()
      return this.alone<Row>(text, values, asking)
    }
  }

  #callText(verb: string, name: string, parameters: number): string {
    const call = `${verb} ${name}`
    let text = this.#texts.get(call)
    if (!text) {
      const places = Array.from({ length: parameters }, (_, index) => `$${index + 1}`)
      text = `${verb} ${this.prefix}.${quoteIdentifier(name)}(${places.join(', ')})`
      this.#texts.set(call, text)
    }
    return text
  }

  /**
   * Runs `work` in a READ COMMITTED transaction and commits, or rolls back if it throws. Closes a connection that may be
   * half open, since later statements would wait behind one that is never answered. Also closes one in which no
   * transaction begins.
   */
  async transaction<T>(work: (client: pg.PoolClient) => Promise<T>, options: Transaction = {}): Promise<T> {
    const { begin = '', lends = false } = options
    const client = await this.connect()
    let broken: Error | undefined = new Error('not begun')
    try {
      // In one message, so that the reset of the session needs no round trip of its own.
      const renewal = lends && this.#lent.has(client) ? renewalOf(client) : ''
      if (lends) this.#lent.add(client)
      await this.query(`${renewal} BEGIN ISOLATION LEVEL READ COMMITTED; ${begin}`, [], client)
      broken = undefined
      const result = await work(client)
      await this.query('COMMIT', [], client, { commits: true, others: lends })
      return result
    } catch (error) {
      if (hasBroken(error) || (!lends && isOfSession(error))) broken = error as Error
      else if (!broken)
        await this.query('ROLLBACK', [], client).catch((failure: Error) => {
          broken = failure
        })
      throw lends ? error : toLockstepError(error)
    } finally {
      this.release(client, broken)
    }
  }

  /** Takes a connection from the pool, for several statements; `release` returns it. */
  async connect(): Promise<pg.PoolClient> {
    try {
      return await this.#take()
    } catch (error) {
      throw toConnectError(error)
    }
  }

  async #take(): Promise<pg.PoolClient> {
    const client = await this.pool.connect()
    client.on('error', ignore)
    return client
  }

  /** With `broken`, closes the connection. */
  release(client: pg.PoolClient, broken?: Error): void {
    client.off('error', ignore)
    client.release(broken)
  }
}
