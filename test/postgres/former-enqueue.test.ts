import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { createDatabase, execute } from '../support/database.ts'
import { previousDefinitions } from '../support/previous-build.ts'
import { poolOn, until } from '../support/store-environment.ts'

/** Each kind of producer goes on for so many pushes before the migration begins, and after it has ended. */
const ENOUGH = 30

let connectionString: string
let pool: pg.Pool
let lockstep: Lockstep
const undo: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  const database = await createDatabase()
  undo.push(() => database.drop())
  connectionString = database.connectionString
  await execute(connectionString, previousDefinitions())
  pool = poolOn(connectionString)
  lockstep = new Lockstep({ connectionString })
  undo.push(
    () => pool.end(),
    () => lockstep.close(),
  )
  await pool.query(`SELECT lockstep.create_queue('orders')`)
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function session(): Promise<pg.PoolClient> {
  const client = await pool.connect()
  undo.push(async () => client.release())
  return client
}

const countOf = async (from: string) =>
  (await pool.query(`SELECT count(*)::int AS count FROM ${from}`)).rows[0].count

describe('a migration from a release whose enqueue returned nothing', () => {
  test('lets what has looked it up before go on calling it', async () => {
    await pool.query(`
      CREATE FUNCTION push(id text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM lockstep.enqueue('orders', id); END $$;
      CREATE FUNCTION push_parsed(id text) RETURNS void BEGIN ATOMIC SELECT lockstep.enqueue('orders', id); END`)
    const old = await session()
    await old.query(`SELECT push('before'), push_parsed('parsed before')`)
    const { rows } = await pool.query(`SELECT 'lockstep.enqueue'::regproc::oid AS oid`)

    await lockstep.migrate()
    expect((await pool.query(`SELECT 'lockstep.enqueue_returning_void'::regproc::oid AS oid`)).rows).toEqual(
      rows,
    )
    await old.query(`SELECT push('after'), push_parsed('parsed after')`)
    expect(await countOf('lockstep.jobs')).toBe(4)
    expect(await lockstep.migrate()).toEqual({ applied: [], defined: false, raised: [] })
  })

  test('lets a statement end that has looked it up, and calls it when the migration has ended', async () => {
    const [keeper, late] = [await session(), await session()]
    await keeper.query('SELECT pg_advisory_lock(1)')
    const pushed = late.query(
      `SELECT lockstep.enqueue('orders', 'late') FROM (SELECT pg_advisory_lock(1) OFFSET 0) AS gate`,
    )
    await until(async () =>
      expect(await countOf(`pg_locks WHERE locktype = 'advisory' AND NOT granted`)).toBe(1),
    )
    const migrated = lockstep.migrate()
    await until(async () => expect(await countOf(`pg_proc WHERE proname = 'enqueue_returning_void'`)).toBe(1))
    await keeper.query('SELECT pg_advisory_unlock(1)')
    await Promise.all([pushed, migrated])
    expect(await countOf(`lockstep.jobs WHERE id = 'late'`)).toBe(1)
  })

  test('refuses a statement that a session has prepared by name, until it is prepared anew', async () => {
    const old = await session()
    const mine = (name: string) =>
      old.query({ name, text: 'SELECT lockstep.enqueue($1, $2)', values: ['orders', 'prepared'] })
    await mine('mine')
    await lockstep.migrate()
    const refused = { code: '0A000', message: 'cached plan must not change result type' }
    await expect(mine('mine')).rejects.toMatchObject(refused)
    expect((await mine('anew')).rows).toEqual([{ enqueue: false }])
  })

  test('fails no push that goes on meanwhile', async () => {
    await pool.query(`
      CREATE TABLE written (id text);
      CREATE FUNCTION push_row() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM lockstep.enqueue('orders', NEW.id);
        RETURN NULL;
      END $$;
      CREATE TRIGGER push_row AFTER INSERT ON written FOR EACH ROW EXECUTE FUNCTION push_row()`)
    const [alone, writing, inside] = [await session(), await session(), await session()]
    const producers = [
      new Endless('SQL', (id) => alone.query(`SELECT lockstep.enqueue('orders', '${id}')`)),
      new Endless('a trigger', (id) => writing.query('INSERT INTO written VALUES ($1)', [id])),
      // As it is called by processes of then.
      new Endless('a process', (id) =>
        pool.query("SELECT lockstep.enqueue('orders', $1, '1', NULL, NULL, 0, NULL)", [id]),
      ),
      new Endless('a transaction', async (id) => {
        await inside.query('BEGIN')
        await inside.query(
          'CALL lockstep.enqueue_in_transaction($1, $2, NULL, NULL, NULL, 0, NULL, NULL, NULL)',
          ['orders', id],
        )
        await inside.query('COMMIT')
      }),
    ]
    await Promise.all(producers.map((producer) => producer.more()))
    await lockstep.migrate()
    await Promise.all(producers.map((producer) => producer.more()))
    const counts = await Promise.all(producers.map((producer) => producer.end()))
    expect(await countOf('lockstep.jobs')).toBe(counts.reduce((sum, count) => sum + count, 0))
  })
})

test('a function enqueue of others beside ours is refused, since calls could be ambiguous', async () => {
  await lockstep.migrate()
  await pool.query(`
    CREATE FUNCTION lockstep.enqueue(queue text, id bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    UPDATE lockstep.release SET serial = serial - 1`)
  await expect(lockstep.migrate()).rejects.toMatchObject({
    code: 'LOCKSTEP_SCHEMA_FOREIGN',
    message: expect.stringContaining('a function enqueue that is not of this release'),
  })
})

/** Pushes one id after the other until it is told to end. Fails if a push does. */
class Endless {
  readonly #name: string
  readonly #pushing: Promise<void>
  #count = 0
  #ends = false
  #failure: unknown

  constructor(name: string, push: (id: string) => Promise<unknown>) {
    this.#name = name
    this.#pushing = this.#go(push)
  }

  /** Resolves after some more pushes. */
  async more(): Promise<void> {
    const enough = this.#count + ENOUGH
    await until(() => {
      if (!this.#failure) expect(this.#count).toBeGreaterThanOrEqual(enough)
    })
    if (this.#failure) throw this.#failure
  }

  /** @returns how many ids it has pushed */
  async end(): Promise<number> {
    this.#ends = true
    await this.#pushing
    if (this.#failure) throw this.#failure
    return this.#count
  }

  async #go(push: (id: string) => Promise<unknown>): Promise<void> {
    try {
      while (!this.#ends) {
        await push(`${this.#name} ${this.#count}`)
        this.#count += 1
      }
    } catch (error) {
      this.#failure = error
    }
  }
}
