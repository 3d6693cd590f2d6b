import type pg from 'pg'
import { migrations } from '../../migrations/index.ts'
import { DatabaseError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { VERSION } from '../version.ts'
import type { Database } from './database.ts'
import { hashOfDefinitions, migrationTable } from './definitions.ts'
import { hasCode } from './failure.ts'
import { quoteIdentifier } from './schema-name.ts'
import { OLDEST_SERVED, SERIAL } from './serial.ts'
import { TYPES } from './types.ts'

/** The release whose definitions a database has. */
export interface Release {
  /** The number of its definitions. */
  readonly serial: number
  /** Of the text of its definitions. */
  readonly hash: string
  /** The lowest serial of a release whose processes can work with these definitions. */
  readonly oldestServed: number
  /** The version of the package. */
  readonly version: string
}

/** What migrations have left in a database. */
export interface SchemaState {
  /** Names of numbered migrations; empty if there is no schema. */
  readonly applied: readonly string[]
  readonly release: Release | undefined
}

/** Runs a statement and returns its rows: through a pool with its time-out, or on one session. */
export type Ask = <Row>(text: string, values?: unknown[]) => Promise<Row[]>

export function askOn(client: Pick<pg.ClientBase, 'query'>): Ask {
  return async (text, values) => (await client.query({ text, values, types: TYPES })).rows
}

export function releaseTable(schema: string): string {
  return `${quoteIdentifier(schema)}.release`
}

const UNDEFINED_COLUMN = '42703'

export async function readState(ask: Ask, schema: string): Promise<SchemaState> {
  const [list, row] = [migrationTable(schema), releaseTable(schema)]
  const [found] = await ask<{ migrated: boolean; told: boolean }>(
    'SELECT to_regclass($1::text) IS NOT NULL AS migrated, to_regclass($2::text) IS NOT NULL AS told',
    [list, row],
  )
  const { migrated, told } = found!
  if (migrated !== told)
    throw foreign(schema, `its \`${migrated ? 'migrations' : 'release'}\` is not of this release`)
  if (!migrated) return { applied: [], release: undefined }
  try {
    const applied = await ask<{ name: string }>(`SELECT name FROM ${list} ORDER BY name`)
    const [release] = await ask<Release>(releaseText(schema))
    return { applied: applied.map(({ name }) => name), release }
  } catch (error) {
    throw hasCode(error, UNDEFINED_COLUMN) ? foreign(schema, (error as Error).message, error) : error
  }
}

/** Something in the schema has one of our names, or was made by a build whose tables no migration brings up to date. */
export function foreign(schema: string, problem: string, cause?: unknown): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_SCHEMA_FOREIGN',
    `the schema "${schema}" can’t be migrated: ${problem}. If another application uses the schema, give pg-lockstep one of its own (option \`schema\`, or LOCKSTEP_SCHEMA); if an unreleased build of pg-lockstep made it, create it anew`,
    { cause },
  )
}

/** Selects the row of the release, as Release. */
export function releaseText(schema: string): string {
  return `SELECT r.serial, r.hash, r.oldest_served AS "oldestServed", r.version FROM ${releaseTable(schema)} r`
}

/** Whether the definitions are those of a later release than this one. */
export function isNewer(release: Release | undefined): release is Release {
  return release !== undefined && release.serial > SERIAL
}

/** Whether processes of this release can work with the definitions. */
export function servesUs({ oldestServed }: Release): boolean {
  return oldestServed <= SERIAL
}

export function tooNew({ serial, version, oldestServed }: Release): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_SCHEMA_NEW',
    `the database was migrated by release ${version} of pg-lockstep (definitions ${serial}), which serves releases with definitions ${oldestServed} or later; this is ${VERSION} (definitions ${SERIAL}): upgrade it`,
  )
}

/** Refuses migrations unknown to this release, unless the database says that a later release serves this one. */
export function refuseUnknown(schema: string, { applied, release }: SchemaState): void {
  const unknown = applied.filter((name) => !(name in migrations))
  if (unknown.length === 0 || isNewer(release)) return
  throw new DatabaseError(
    'LOCKSTEP_SCHEMA_NEW',
    `the schema "${schema}" has migrations that this release does not know (${unknown.join(', ')}): if a later release made it, upgrade this one; if an unreleased build did, create the schema anew`,
  )
}

/**
 * Checks, before a worker starts, that this release can work with the database's definitions. Those of a later
 * release are fine if they serve this one.
 * @throws DatabaseError `LOCKSTEP_SCHEMA_MISSING`, `LOCKSTEP_SCHEMA_OLD` or `LOCKSTEP_SCHEMA_NEW`
 */
export async function requireMigrated(database: Database, logger?: Logger): Promise<void> {
  const { schema } = database
  const state = await readState((text, values) => database.query(text, values), schema)
  if (state.applied.length === 0) {
    throw new DatabaseError(
      'LOCKSTEP_SCHEMA_MISSING',
      `the database has no schema "${schema}" of pg-lockstep: run \`lockstep migrate\` first`,
    )
  }
  refuseUnknown(schema, state)
  const { release } = state
  if (isNewer(release)) {
    if (!servesUs(release)) throw tooNew(release)
    return
  }
  refuseOlder(schema, state)
  if (release!.hash === (await hashOfDefinitions())) return
  logger?.warn(
    { serial: SERIAL, version: release!.version },
    'the functions of the database differ from those of this release but have its number: an unreleased build migrated it, or this is one; run `lockstep migrate` with the build to be used',
  )
}

function refuseOlder(schema: string, { applied, release }: SchemaState): void {
  const missing = Object.keys(migrations).filter((name) => !applied.includes(name))
  if (missing.length === 0 && release?.serial === SERIAL) return
  const lacks =
    missing.length > 0 ? missing.join(', ') : `definitions ${SERIAL}: it has ${release?.serial ?? 'none'}`
  throw new DatabaseError(
    'LOCKSTEP_SCHEMA_OLD',
    `the schema "${schema}" lacks ${lacks}: run \`lockstep migrate\` with this release`,
  )
}

/** The later release that has migrated since and no longer serves this one, if there is one. */
export async function successorOf(database: Database): Promise<Release | undefined> {
  const [release] = await database.prepared<Release>(releaseText(database.schema), [])
  return release && !servesUs(release) ? release : undefined
}

/** The statement that writes the row of this release. */
export async function noteRelease(schema: string): Promise<string> {
  return `insert into ${releaseTable(schema)} as r (serial, hash, oldest_served, version, made, migrated_at)
values (${SERIAL}, '${await hashOfDefinitions()}', ${OLDEST_SERVED}, '${VERSION}', (${madeIn(schema)}), clock_timestamp())
on conflict (only_row) do update set (serial, hash, oldest_served, version, made, migrated_at)
  = (excluded.serial, excluded.hash, excluded.oldest_served, excluded.version, excluded.made, excluded.migrated_at)`
}

/**
 * Whether a migration has nothing to do: the definitions are those of this release, and no one has changed or dropped
 * one by hand since. Does not compare the definitions of views, since reading them would lock the tables.
 */
export async function isUpToDate(ask: Ask, schema: string, state: SchemaState): Promise<boolean> {
  const { applied, release } = state
  if (!Object.keys(migrations).every((name) => applied.includes(name))) return false
  if (release?.serial !== SERIAL || release.hash !== (await hashOfDefinitions())) return false
  const [row] = await ask<{ same: boolean }>(
    `SELECT r.made = (${madeIn(schema)}) AS same FROM ${releaseTable(schema)} r`,
  )
  return row!.same
}

/** A digest of the schema's functions and views. Needs the search_path of a migration, since names depend on it. */
function madeIn(schema: string): string {
  const namespace = `'${quoteIdentifier(schema)}'::regnamespace`
  return `select encode(sha256(convert_to(concat(
  (select string_agg(pg_get_functiondef(p.oid), ' ' order by p.proname, p.proargtypes::text)
   from pg_proc p where p.pronamespace = ${namespace} and p.prokind in ('f', 'p')),
  (select string_agg(c.relname::text, ' ' order by c.relname)
   from pg_class c where c.relnamespace = ${namespace} and c.relkind = 'v')
), 'UTF8')), 'hex')`
}
