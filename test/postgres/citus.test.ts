import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { endOutlived } from '../../src/store/process.ts'
import { notify } from '../../src/store/wake.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { poolOn } from '../support/store-environment.ts'

let server: TestDatabase
let pool: pg.Pool
let lockstep: Lockstep

beforeEach(async () => {
  server = await createDatabase()
  pool = poolOn(server.connectionString)
  lockstep = new Lockstep({ connectionString: server.connectionString })
})
afterEach(async () => {
  await lockstep.close()
  await pool.end()
  await server.drop()
})

/**
 * What an installation of Citus brings that affects us: its functions for all nodes, and its catalog. Citus moves that
 * to `pg_catalog` in the same way.
 */
async function installCitus(): Promise<void> {
  await pool.query(`
    SET allow_system_table_mods = on;
    CREATE FUNCTION pg_catalog.pg_cancel_backend(global_pid bigint) RETURNS bool LANGUAGE sql AS 'SELECT false';
    CREATE FUNCTION pg_catalog.pg_terminate_backend(global_pid bigint, timeout bigint DEFAULT 0) RETURNS bool
      LANGUAGE sql AS 'SELECT false';
    CREATE TABLE public.pg_dist_partition (
      logicalrelid regclass NOT NULL, partmethod "char" NOT NULL, partkey text, colocationid integer NOT NULL DEFAULT 0,
      repmodel "char" NOT NULL DEFAULT 'c', autoconverted bool NOT NULL DEFAULT false
    );
    ALTER TABLE public.pg_dist_partition SET SCHEMA pg_catalog;
    GRANT SELECT ON pg_catalog.pg_dist_partition TO public;
    RESET allow_system_table_mods`)
}

const queue = defineQueue('orders', { perform() {} })

test('with Citus merely installed, or with others’ tables distributed, everything works', async () => {
  await installCitus()
  await pool.query(`CREATE TABLE elsewhere (); INSERT INTO pg_dist_partition VALUES ('elsewhere', 'h')`)
  await lockstep.migrate()
  const worker = lockstep.createWorker({ queues: [queue] })
  await worker.start()
  await lockstep.enqueue(queue, { id: 'a' })
  await new Promise((resolve) => worker.once('completed', resolve))
  await worker.stop()
})

test('with Citus merely installed, the session of a stopped process is ended', async () => {
  await lockstep.migrate()
  await installCitus()
  const stopped = new pg.Client(server.connectionString)
  stopped.on('error', () => {})
  await stopped.connect()
  const ended = new Promise((resolve) => stopped.once('end', resolve))
  const { rows } = await stopped.query(
    `SELECT pg_backend_pid() AS pid, pg_advisory_lock('lockstep.processes'::regclass::oid::integer, 1234567)`,
  )
  const database = new Database(pool, 'lockstep')
  await endOutlived(database, { pid: rows[0].pid, processId: 1_234_567 })
  await ended
  await notify(database, 'rebalance')
})

test.each(['h', 'n'])(
  'tables that Citus has made its own (%s) are refused by migrate and workers',
  async (method) => {
    await lockstep.migrate()
    await installCitus()
    await pool.query(
      `INSERT INTO pg_dist_partition SELECT t::regclass, $1 FROM unnest('{lockstep.jobs,lockstep.payloads}'::text[]) t`,
      [method],
    )
    const refused = {
      code: 'LOCKSTEP_DISTRIBUTED',
      message: expect.stringMatching(
        /"lockstep" \(jobs, payloads\).*undistribute_table\('"lockstep".jobs'\)/,
      ),
    }
    await expect(lockstep.migrate()).rejects.toMatchObject(refused)
    const worker = lockstep.createWorker({ queues: [queue] })
    await expect(worker.start()).rejects.toMatchObject(refused)
    await worker.stop()
    expect((await pool.query('SELECT FROM lockstep.processes')).rows).toEqual([])
  },
)
