import type pg from 'pg'
import { DatabaseError } from '../errors.ts'
import { rejectUnknownOptions, wholeNumber } from '../options.ts'
import { carries, carryingAsFound, noteIfNew, outlast } from './carrying.ts'
import type { Database } from './database.ts'
import { carryingDefinition, definitions, groundStatements, pendingMigrations } from './definitions.ts'
import { refuseDistributed } from './distribution.ts'
import { hasCode, toStatementError } from './failure.ts'
import { type Patience, SHORT_LOCKS, withLocks } from './patience.ts'
import {
  askOn,
  foreign,
  isNewer,
  isUpToDate,
  noteRelease,
  type Release,
  readState,
  refuseUnknown,
  servesUs,
  tooNew,
} from './release.ts'
import { quoteIdentifier } from './schema-name.ts'
import { type RaisedSequence, raiseSequences } from './sequences.ts'

/** How `migrate` goes about it. */
export interface MigrateOptions {
  /** ms to keep trying to get locks that others hold; each try waits only a moment. Default 60,000. */
  readonly giveUpAfter?: number
  /**
   * Compare sequences with every row, not only with a sample of large tables, even if there is nothing else to do. This
   * takes some tenths of a second per million jobs. Default false.
   */
  readonly everyRow?: boolean
}

/** The result of a migration. */
export interface MigrationReport {
  /** The numbered migrations that it applied, in order; empty if the database had them all. */
  readonly applied: readonly string[]
  /** Whether it updated functions and views; false if they were up to date, or are a later release's. */
  readonly defined: boolean
  /** The later release whose definitions it found and left alone, since they serve this release too. */
  readonly newer?: Pick<Release, 'serial' | 'version'>
  /**
   * Set if new jobs still take two rows, as before the migration `0002_first_payload`: most likely a transaction that began
   * before it has not ended within seconds. Everything works; the next `migrate` tries again.
   */
  readonly carries?: false
  /** Sequences that were behind their rows, as after restoring only the tables, and that it raised. */
  readonly raised: readonly RaisedSequence[]
}

const DEFAULT_GIVE_UP_AFTER = 60_000
/** ms to wait for transactions of before, after migrating and otherwise. A later call can still do it. */
const [LONGEST_WAIT, SHORT_WAIT] = [5_000, 500]
const A_DAY = 24 * 3600 * 1000

/**
 * Brings the schema up to this release: numbered migrations, then functions and views, in one transaction. It never
 * downgrades: it leaves definitions of a later release alone. If there is nothing to do, it locks nothing.
 * Several processes may call it at once: one migrates, the others wait.
 * @throws DatabaseError `LOCKSTEP_SCHEMA_NEW` if a later release has migrated and no longer serves this one,
 * `LOCKSTEP_SCHEMA_FOREIGN` if something else in the schema has one of our names, `LOCKSTEP_LOCKED`
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<MigrationReport> {
  rejectUnknownOptions(options, ['giveUpAfter', 'everyRow'], 'migrate')
  const { everyRow = false } = options
  const longest = options.giveUpAfter ?? DEFAULT_GIVE_UP_AFTER
  const giveUpAfter = wholeNumber(longest, 0, A_DAY, 'migrate: giveUpAfter')
  const { schema } = database
  const client = await database.connect()
  try {
    const patience = { schema, what: 'migrating', giveUpAfter }
    // By turns, since either order of locks may meet sessions that have them the other way round.
    let tries = 0
    const done = await withLocks(client, patience, () => {
      tries += 1
      return migrateAlone(client, schema, tries % 2 === 0)
    })
    if (done.newer) return { ...done, raised: [] }
    const raised = await raiseSequences(client, schema, everyRow || done.defined)
    const wait = Math.min(giveUpAfter, done.defined ? LONGEST_WAIT : SHORT_WAIT)
    const carrying = (await carries(client, schema)) || (await beginToCarry(client, patience, wait))
    return { ...done, raised, ...(carrying ? {} : { carries: false }) }
  } catch (error) {
    throw toStatementError(error)
  } finally {
    database.release(client)
  }
}

/** Codes for a name that a table, a type, or a function or view of another shape has already. */
const NAME_TAKEN = ['42P07', '42723', '42725', '42710', '42809', '42P13', '42P16']

/** Until the end of the transaction no one else migrates. */
async function lockMigrations(client: pg.ClientBase, schema: string): Promise<void> {
  // Functions that run with their owner's rights must not be bound to objects that others put on the search_path.
  await client.query('SET LOCAL search_path = pg_catalog, pg_temp')
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))', [
    `pg-lockstep migrate ${schema}`,
  ])
}

/** Runs in a transaction. */
async function migrateAlone(
  client: pg.ClientBase,
  schema: string,
  allAtOnce: boolean,
): Promise<Pick<MigrationReport, 'applied' | 'defined' | 'newer'>> {
  await lockMigrations(client, schema)
  await refuseReadOnly(client)
  await refuseDistributed(askOn(client), schema)
  const state = await readState(askOn(client), schema)
  refuseUnknown(schema, state)
  const { applied, release } = state
  if (isNewer(release)) {
    if (!servesUs(release)) throw tooNew(release)
    return { applied: [], defined: false, newer: { serial: release.serial, version: release.version } }
  }
  if (await isUpToDate(askOn(client), schema, state)) return { applied: [], defined: false }
  const done = await bringUpToDate(client, schema, applied, allAtOnce).catch((error) => {
    throw hasCode(error, ...NAME_TAKEN) ? foreign(schema, error.message, error) : error
  })
  return { applied: done, defined: true }
}

/** In the order in which transactions of ours come to them. Others follow. */
const FIRST_TABLES = ['queues', 'jobs', 'payloads', 'morgue']

/**
 * Locks all tables before any is changed. If each migration locked what it changes when it comes to it, whoever waits for a table that
 * is locked already would hold one that a later migration needs, and under load there would always be somebody. In this order, who
 * waits for the first holds nothing, and who is past it is done within moments.
 */
async function lockTables(client: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT c.oid::regclass::text AS name FROM pg_class c
     WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
     ORDER BY array_position($2::text[], c.relname::text), c.relname`,
    [quoteIdentifier(schema), FIRST_TABLES],
  )
  for (const { name } of rows) await client.query(`LOCK TABLE ${name} IN ACCESS EXCLUSIVE MODE`)
}

/** @returns the names of the migrations it applied */
async function bringUpToDate(
  client: pg.ClientBase,
  schema: string,
  applied: readonly string[],
  allAtOnce: boolean,
): Promise<string[]> {
  const pending = await pendingMigrations(schema, applied)
  await client.query(SHORT_LOCKS)
  if (applied.length === 0) for (const text of groundStatements(schema)) await client.query(text)
  else if (pending.length > 0 && allAtOnce) await lockTables(client, schema)
  for (const { statements } of pending) for (const text of statements) await client.query(text)
  const carrying = await carryingDefinition(schema, applied.length === 0 || (await carries(client, schema)))
  for (const text of await definitions(schema, carrying)) await client.query(text)
  await client.query(await noteRelease(schema))
  // Makes workers compare at once. A full notification queue would fail the commit: then they compare at their interval.
  await client.query(`SELECT pg_notify($1::text, 'rebalance') WHERE pg_notification_queue_usage() < 0.5`, [
    schema,
  ])
  return pending.map(({ name }) => name)
}

/**
 * The definitions that can read such rows are committed, so everything works without this (see carrying.ts). Returns whether
 * jobs carry now.
 */
async function beginToCarry(client: pg.ClientBase, patience: Patience, wait: number): Promise<boolean> {
  try {
    if (!(await outlast(client, wait))) return false
    return await withLocks(client, patience, () => startCarrying(client, patience.schema))
  } catch (error) {
    if (hasCode(error, 'LOCKSTEP_LOCKED', NOT_PERMITTED)) return false
    throw error
  }
}

/** Where the administrator has hidden sessions and their locks. */
const NOT_PERMITTED = '42501'

/** Runs in a transaction. Another process may have done it meanwhile, or migrated further. */
async function startCarrying(client: pg.ClientBase, schema: string): Promise<boolean> {
  await lockMigrations(client, schema)
  if (await carries(client, schema)) return true
  if (!(await isUpToDate(askOn(client), schema, await readState(askOn(client), schema)))) return false
  await client.query(await carryingDefinition(schema, true))
  await client.query(await noteRelease(schema))
  return true
}

/** Checked even if there is nothing to do, since the connection itself is wrong. */
async function refuseReadOnly(client: pg.ClientBase): Promise<void> {
  const [row] = await askOn(client)<{ refused: boolean }>(
    "SELECT current_setting('transaction_read_only') = 'on' AS refused",
  )
  if (row!.refused) {
    throw new DatabaseError(
      'LOCKSTEP_READ_ONLY',
      'this server is a read-only replica, or the role or database is read-only by default: connect to the primary',
    )
  }
}

/** The whole schema as SQL, for teams that run their own migrations. */
export async function migrationSql(schema: string): Promise<string> {
  const pending = await pendingMigrations(schema)
  const tables = [...groundStatements(schema), ...pending.flatMap(({ statements }) => statements)]
  return [
    `${noteIfNew(schema)};`,
    ...tables.map((statement) => `${statement};`),
    PIN_PATH,
    ...(await definitions(schema, await carryingAsFound(schema))),
    `${await noteRelease(schema)};`,
    UNPIN_PATH,
  ].join('\n\n')
}

/** Binds functions and views to pg_catalog, whether the SQL is run in one transaction or not. */
const PIN_PATH = `select set_config('lockstep.search_path', current_setting('search_path'), false);
set search_path = pg_catalog, pg_temp;`
const UNPIN_PATH = `select set_config('search_path', current_setting('lockstep.search_path'), false);`
