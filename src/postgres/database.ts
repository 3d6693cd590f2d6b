import { createHash } from 'node:crypto'
import pg from 'pg'
import { hasCode, isConnectionFailure, toConnectError, toLockstepError, toStatementError } from './failure.ts'
import { quoteIdentifier } from './schema-name.ts'
import { renewalOf } from './session.ts'

/** Anything that runs a statement with $1, $2 … for values, as a `pg` client or pool does. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

export interface Transaction {
  /** Statements that are sent with the BEGIN. */
  readonly begin?: string
  readonly commit?: string
  /**
   * Others' statements run in it: what they leave in the session is undone when the next one begins there. So a pool that
   * sessions are lent from is for nothing else. Default false.
   */
  readonly lends?: boolean
}

export interface Asking {
  /** ms that the answer may take more than others. Default 0. */
  readonly longer?: number
  /** Rows come as lists of their columns, which costs less where there are many. Default false. */
  readonly lists?: boolean
}

const INT8: number = pg.types.builtins.INT8

/** Counts, fences and microseconds stay below 2^53, so a bigint column is read as a number; other types as usual. */
const TYPES = {
  getTypeParser: (oid: number, format: 'text') =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig

/**
 * Of a connection that breaks between two statements. It is told by the next one; and an error nobody listens to, as nobody does
 * in an application's pool while it is lent out, ends the process.
 */
function ignore(): void {}

const names = new Map<string, string>()

/** The same for the same text alone: behind a pooler, sessions are shared with whoever else comes through it. */
function statementName(text: string): string {
  let name = names.get(text)
  if (!name) {
    name = `lockstep_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
    names.set(text, name)
  }
  return name
}

/** It is missing or there twice, or what it returns has changed since: a migration ran meanwhile. */
function isAboutItsName(error: unknown): boolean {
  return (
    hasCode(error, '26000', '42P05') ||
    (hasCode(error, '0A000') && (error as Error).message.includes('cached plan'))
  )
}

/** A pool and the schema in it: the store's way to the server. Errors come out as ours where we know them. */
export class Database {
  readonly pool: pg.Pool
  readonly schema: string
  readonly prefix: string
  readonly #callTimeout: number | undefined
  /** Of calls, by verb and function. */
  readonly #texts = new Map<string, string>()
  /** Sessions in which others' statements have run. */
  readonly #lent = new WeakSet<object>()
  /** Whether a statement alone would not run at READ COMMITTED. */
  #wrap = false
  #names = true

  /** `callTimeout`: ms after which a statement of ours counts as failed; a half-open connection never answers. */
  constructor(pool: pg.Pool, schema: string, callTimeout?: number) {
    this.pool = pool
    this.schema = schema
    this.prefix = quoteIdentifier(schema)
    this.#callTimeout = callTimeout
  }

  /**
   * From now on every statement alone runs in a READ COMMITTED transaction of its own: behind a pooler, a session whose
   * default is another level is left as it is. One that only reads would else be a part of others' conflicts.
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
      const { rows } = await (
        on as unknown as { query(query: pg.QueryConfig): Promise<{ rows: Row[] }> }
      ).query(query)
      return rows
    } catch (error) {
      throw toStatementError(error)
    }
  }

  /**
   * A statement that each connection of the pool parses once. A pooler in between may hand the next call to a session
   * that doesn't know it, or knows it already: then nothing was done, and statements have no names from then on.
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

  /** Calls one for what it does, not for what it returns; through others' drivers in the form they do least about. */
  async run(
    name: string,
    values: unknown[],
    on?: Queryable,
    verb: 'SELECT' | 'CALL' = 'SELECT',
  ): Promise<void> {
    const text = this.#callText(verb, name, values.length)
    if (!on) return void (await this.alone(text, values))
    try {
      await on.query(text, values)
    } catch (error) {
      throw toStatementError(error)
    }
  }

  /** Runs a statement in a READ COMMITTED transaction of its own, which a statement alone is on most servers. */
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
   * Runs `work` in a READ COMMITTED transaction and commits, or rolls back when it throws. A connection that may be
   * half open is thrown away: what is asked of it next would wait behind what is never answered. So is one in which no
   * transaction begins.
   */
  async transaction<T>(work: (client: pg.PoolClient) => Promise<T>, options: Transaction = {}): Promise<T> {
    const { begin = '', commit = 'COMMIT', lends = false } = options
    const client = await this.connect()
    let broken: Error | undefined = new Error('not begun')
    try {
      // In one message: what was left in the session goes without a round trip of its own.
      const renewal = lends && this.#lent.has(client) ? renewalOf(client) : ''
      if (lends) this.#lent.add(client)
      await this.query(`${renewal} BEGIN ISOLATION LEVEL READ COMMITTED; ${begin}`, [], client)
      broken = undefined
      const result = await work(client)
      await this.query(commit, [], client)
      return result
    } catch (error) {
      if (isConnectionFailure(error)) broken = error as Error
      else if (!broken)
        await this.query('ROLLBACK', [], client).catch((failure: Error) => {
          broken = failure
        })
      throw toLockstepError(error)
    } finally {
      this.release(client, broken)
    }
  }

  /** Of the pool, for several statements; `release` gives it back. */
  async connect(): Promise<pg.PoolClient> {
    try {
      const client = await this.pool.connect()
      client.on('error', ignore)
      return client
    } catch (error) {
      throw toConnectError(error)
    }
  }

  /** `broken`: it is thrown away. */
  release(client: pg.PoolClient, broken?: Error): void {
    client.off('error', ignore)
    client.release(broken)
  }
}
