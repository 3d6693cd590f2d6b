import { type Kysely, sql } from 'kysely'

/**
 * What clients of lmstfy's API may do. Tokens are kept as they are, since its administration lists them; `digest` is that of
 * the token, by which it is looked up.
 *
 * `lmstfy_limits`: how many requests a token may make in `per` seconds, 0 for any number.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('lmstfy_tokens')
    .addColumn('created_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .addColumn('pool', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('namespace', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('digest', 'bytea', (column) => column.notNull())
    .addColumn('token', 'text', (column) => column.notNull())
    .addColumn('description', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('lmstfy_tokens_pkey', ['pool', 'namespace', 'digest'])
    .execute()
  await db.schema
    .createTable('lmstfy_limits')
    .addColumn('reads', 'bigint', (column) => column.notNull())
    .addColumn('writes', 'bigint', (column) => column.notNull())
    .addColumn('per', 'bigint', (column) => column.notNull())
    .addColumn('pool', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('namespace', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('digest', 'bytea', (column) => column.notNull())
    .addColumn('token', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('lmstfy_limits_pkey', ['pool', 'namespace', 'digest'])
    .execute()
  const queues = sql.id(schema, 'queues')
  // A namespace and a queue, of 255 bytes each.
  await sql`alter table ${queues} drop constraint queues_name,
    add constraint queues_name check (octet_length(name) between 1 and 511)`.execute(db)
}
