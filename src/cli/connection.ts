import { type Command, Option } from 'commander'
import type { Lockstep } from '../index.ts'
import type { Database } from '../postgres/database.ts'
import { checkSchemaName, DEFAULT_SCHEMA } from '../postgres/schema-name.ts'
import { keepSecret, UsageError } from './failure.ts'
import { stderrLogger } from './stderr-logger.ts'

/** The options of every command that connects to a database. */
export interface ConnectionOptions {
  readonly databaseUrl?: string
  readonly directUrl?: string
  readonly schema: string
  readonly json?: boolean
}

export function withConnection(command: Command): Command {
  return command
    .addOption(new Option('--database-url <url>', 'database to connect to').env('DATABASE_URL'))
    .addOption(
      new Option('--direct-url <url>', 'the same database, bypassing any pooler; for workers').env(
        'DATABASE_DIRECT_URL',
      ),
    )
    .addOption(schemaOption())
    .option('--json', 'print JSON, for scripts')
}

export function schemaOption(): Option {
  return new Option('--schema <name>', 'schema that holds the tables')
    .env('LOCKSTEP_SCHEMA')
    .default(DEFAULT_SCHEMA)
}

/** What a command works with. */
export interface Connection {
  readonly lockstep: Lockstep
  readonly database: Database
}

/** A command does one thing, so it needs few connections. */
const POOL_SIZE = 4

/** Runs `work` with a connection and closes it afterwards. */
export async function connected<T>(
  options: ConnectionOptions,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const { connectionString, schema } = checkConnection(options)
  // Loaded only here, so that help and usage errors take half the time.
  const [{ default: pg }, { connectionConfig }, { Database }, { Lockstep }] = await Promise.all([
    import('pg'),
    import('../postgres/connection.ts'),
    import('../postgres/database.ts'),
    import('../lockstep.ts'),
  ])
  const pool = new pg.Pool({ ...connectionConfig(connectionString, 'lockstep'), max: POOL_SIZE })
  pool.on('error', () => {})
  const lockstep = new Lockstep({ pool, schema, logger: stderrLogger })
  try {
    return await work({ lockstep, database: new Database(pool, schema) })
  } finally {
    await pool.end()
  }
}

export interface CheckedConnection {
  readonly connectionString: string
  readonly directUrl: string | undefined
  readonly schema: string
}

/** @throws UsageError, or OptionError for the schema; no message shows any part of a connection string */
export function checkConnection({ databaseUrl, directUrl, schema }: ConnectionOptions): CheckedConnection {
  const { PGPASSWORD } = process.env
  if (PGPASSWORD) keepSecret(PGPASSWORD)
  if (!databaseUrl) {
    throw new UsageError(
      'no database: set DATABASE_URL, or give --database-url postgresql://user:password@host:5432/database',
    )
  }
  return {
    connectionString: checkUrl(databaseUrl, 'database URL'),
    directUrl: directUrl ? checkUrl(directUrl, 'direct URL') : undefined,
    schema: checkSchemaName(schema),
  }
}

/** In a malformed URL, the driver may read part of the password as a host or database name, so it is refused here. */
function checkUrl(url: string, what: string): string {
  keepSecret(url)
  if (!/^postgres(ql)?:\/\//.test(url)) {
    throw new UsageError(`the ${what} must look like postgresql://user:password@host:5432/database`)
  }
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const misread = !parsed || /@/.test(parsed.pathname + parsed.hash) || /^\?[^=&]*@/.test(parsed.search)
  if (!misread || isSocketUrl(url)) return url
  throw new UsageError(
    `the ${what} can't be read: characters such as / ? # @ % in the user or password must be percent-encoded`,
  )
}

/** `postgresql:///name?host=/run/postgresql` or `postgresql://user@/name`; the URL class refuses the latter. */
function isSocketUrl(url: string): boolean {
  return /^postgres(ql)?:\/\/([^/?#@\s]*@)?\/[^@#\s]*$/.test(url)
}
