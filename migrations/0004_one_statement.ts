import type { Kysely } from 'kysely'
import { dropFunction } from './old-function.ts'

/** A worker completes rounds of all queues, and claims, in one statement: the function for that goes, and forms for one queue. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const done = 'integer, integer[], text[], bigint[], double precision[], bigint[]'
  const wished = 'integer[], integer[], smallint[], integer[], integer[], bigint[], text[]'
  await dropFunction(db, schema, 'exchange', `${done}, ${wished}`)
  const rounds = 'integer, integer, text[], bigint[]'
  await dropFunction(db, schema, 'complete', `${rounds}, double precision[], bigint[], boolean`)
  await dropFunction(db, schema, 'fail', `${rounds}, text[], double precision[], boolean`)
  await dropFunction(db, schema, 'release', `${rounds}, boolean`)
  await dropFunction(db, schema, 'hold', `${rounds}, boolean`)
  await dropFunction(db, schema, 'unsettled', `${rounds}, integer[]`)
  await dropFunction(db, schema, 'bury_lowest', 'integer, text[], bigint[], text[], integer[]')
}
