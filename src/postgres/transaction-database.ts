import type pg from 'pg'
import { type Asking, Database, type Transaction } from './database.ts'

/** The store's access to a transaction of the caller's, through its `pg` client: whatever it does is a part of that. */
export class TransactionDatabase extends Database {
  readonly #client: pg.PoolClient

  constructor(client: pg.ClientBase, schema: string) {
    // What else would use the pool is overridden below.
    super(client as unknown as pg.Pool, schema)
    this.#client = client as pg.PoolClient
  }

  protected override queryPool(query: pg.QueryConfig): Promise<{ rows: unknown[] }> {
    return this.#client.query(query)
  }

  override prepared<Row>(text: string, values: unknown[], asking?: Asking): Promise<Row[]> {
    return this.query<Row>(text, values, this.#client, asking)
  }

  /** A statement is a part of the transaction, whose level it has. */
  override alone<Row>(text: string, values: unknown[], asking?: Asking): Promise<Row[]> {
    return this.prepared<Row>(text, values, asking)
  }

  /** Runs `work` between two savepoints. Settings of `begin` last until the end of the transaction. */
  override async transaction<T>(
    work: (client: pg.PoolClient) => Promise<T>,
    { begin = '' }: Transaction = {},
  ): Promise<T> {
    await this.query(`SAVEPOINT lockstep; ${begin}`)
    try {
      const result = await work(this.#client)
      await this.query('RELEASE SAVEPOINT lockstep')
      return result
    } catch (error) {
      await this.query('ROLLBACK TO SAVEPOINT lockstep; RELEASE SAVEPOINT lockstep').catch(() => {})
      throw error
    }
  }
}
