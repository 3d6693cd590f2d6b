import { type Kysely, sql } from 'kysely'

/**
 * What the HTTP API keeps. `api_tokens`: who may use it, by the SHA-256 of their tokens; `queues` is null where a token is good
 * for all, and `rate_requests` where it may make any number of requests. `request_windows`: how many requests a token has made
 * since a window began, one row for each window: the current one is the latest. `idempotency_keys`: the answers to pushes that
 * named a key, written in the transaction of their jobs. A key belongs to its holder, so that nobody gets another one's answer.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('api_tokens')
    .addColumn('name', sql`text collate "C"`, (column) => column.primaryKey())
    .addColumn('digest', 'bytea', (column) => column.notNull().unique())
    .addColumn('scopes', sql`text[]`, (column) => column.notNull())
    .addColumn('queues', sql`text[]`)
    .addColumn('rate_requests', 'integer')
    .addColumn('rate_per', 'integer')
    .addColumn('created_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .execute()
  await db.schema
    .createTable('request_windows')
    .addColumn('begins_at', 'timestamptz', (column) => column.notNull())
    .addColumn('used', 'bigint', (column) => column.notNull())
    .addColumn('subject', 'bytea', (column) => column.notNull())
    .addPrimaryKeyConstraint('request_windows_pkey', ['subject', 'begins_at'])
    .execute()
  await db.schema
    .createTable('idempotency_keys')
    .addColumn('holder', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('key', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('digest', 'bytea', (column) => column.notNull())
    .addColumn('stored', 'integer', (column) => column.notNull())
    .addColumn('noted_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .addPrimaryKeyConstraint('idempotency_keys_pkey', ['holder', 'key'])
    .execute()
  await sql`create index idempotency_keys_noted on ${sql.id(schema, 'idempotency_keys')} (noted_at)`.execute(
    db,
  )
}
