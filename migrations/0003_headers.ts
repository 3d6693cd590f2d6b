import { type Kysely, sql } from 'kysely'

/** Adds headers beside each payload, and drops the functions that had to change for them, by their former arguments. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  for (const table of ['payloads', 'morgue'])
    await db.schema.alterTable(table).addColumn('headers', 'jsonb').execute()
  for (const [kind, name, args] of REPLACED)
    await sql`drop ${sql.raw(kind)} if exists ${sql.id(schema, name)}(${sql.raw(args)})`.execute(db)
}

const COLUMNS = 'text[], jsonb[], double precision[], timestamptz[], smallint[]'
const FIELDS = 'text, jsonb, double precision, timestamptz, integer'

const REPLACED = [
  ['function', 'problem_of', 'text, jsonb, double precision, timestamptz, smallint'],
  ['function', 'check_jobs', COLUMNS],
  ['function', 'enqueue', `text, ${FIELDS}`],
  ['function', 'enqueue_many', `text, ${COLUMNS}`],
  ['function', 'push_many', `integer, integer, ${COLUMNS}`],
  ['procedure', 'enqueue_in_transaction', `text, ${FIELDS}, uuid, text`],
  ['procedure', 'enqueue_many_in_transaction', `text, ${COLUMNS}, uuid, text`],
  ['procedure', 'enqueue_many_in_same_transaction', `xid8, text, integer, ${COLUMNS}, uuid, text`],
  ['function', 'payloads_of_round', 'integer, text, bigint, integer, integer'],
  ['function', 'load_payloads', 'integer, integer, text, bigint, integer, integer'],
  [
    'function',
    'claim',
    'integer, integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint',
  ],
] as const
