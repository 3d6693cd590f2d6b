import pg from 'pg'
import { DatabaseError } from '../../index.ts'
import { startEmbeddedPostgres } from '../../postgres/embedded.ts'
import { toLockstepError } from '../../postgres/failure.ts'
import { createShop, QUEUE_SCHEMA, SHOP_SCHEMA } from './shop.ts'

/** A database for the demo. */
export interface DemoDatabase {
  readonly connectionString: string
  readonly client: pg.Client
  /** For people to read. */
  readonly description: string
  /** Removes every trace. */
  close(): Promise<void>
}

const SCHEMAS = [QUEUE_SCHEMA, SHOP_SCHEMA]
/** The comment on the demo's schemas, so that it drops no others. */
const MARK = 'pg-lockstep demo: dropped when it ends, or by the next one'

/** The database that DATABASE_URL names, or else a temporary server that stops with the demo. */
export async function openDatabase(): Promise<DemoDatabase> {
  const { DATABASE_URL } = process.env
  if (DATABASE_URL) return prepareGiven(DATABASE_URL)
  const server = await startEmbeddedPostgres()
  try {
    const client = await connect(server.connectionString)
    const close = async () => {
      await client.end()
      await server.stop()
    }
    return await prepare({
      connectionString: server.connectionString,
      client,
      description: 'a temporary Postgres, which is removed when the demo ends',
      close,
    })
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function prepareGiven(connectionString: string): Promise<DemoDatabase> {
  const client = await connect(connectionString)
  const close = async () => {
    await client.query(
      `SET client_min_messages = warning; DROP SCHEMA IF EXISTS ${SCHEMAS.join(', ')} CASCADE`,
    )
    await client.end()
  }
  const description = `the database of DATABASE_URL, in the schemas ${SCHEMAS.join(' and ')}, which are dropped at the end`
  try {
    await beAlone(client)
  } catch (error) {
    await client.end()
    throw error
  }
  return prepare({ connectionString, client, description, close })
}

async function prepare(database: DemoDatabase): Promise<DemoDatabase> {
  try {
    for (const schema of SCHEMAS)
      await database.client.query(`CREATE SCHEMA ${schema}; COMMENT ON SCHEMA ${schema} IS '${MARK}'`)
    await createShop(database.client)
    return database
  } catch (error) {
    await database.close()
    throw toLockstepError(error)
  }
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, application_name: 'pg-lockstep demo' })
  // The query under way fails too and reports the error.
  client.on('error', () => {})
  await client.connect().catch((error) => {
    throw toLockstepError(error)
  })
  return client
}

/** Drops what a killed demo left behind, and nothing else. */
async function beAlone(client: pg.Client): Promise<void> {
  const { rows } = await client.query(
    "SELECT pg_try_advisory_lock(hashtextextended('pg-lockstep demo', 0)) AS locked",
  )
  if (!rows[0].locked)
    throw new DatabaseError(
      'LOCKSTEP_DEMO_RUNNING',
      'another demo is running in this database: wait until it ends',
    )
  const found = await client.query(
    "SELECT nspname AS name, obj_description(oid, 'pg_namespace') AS mark FROM pg_namespace WHERE nspname = ANY ($1)",
    [SCHEMAS],
  )
  for (const { name, mark } of found.rows) {
    if (mark !== MARK)
      throw new DatabaseError(
        'LOCKSTEP_DEMO_SCHEMA',
        `the database has a schema "${name}" that the demo did not create: use another database, or unset DATABASE_URL`,
      )
    await client.query(`SET client_min_messages = warning; DROP SCHEMA ${name} CASCADE`)
  }
}
