import { DatabaseError } from '../errors.ts'
import type { Ask } from './release.ts'
import { quoteIdentifier } from './schema-name.ts'

/** Where Citus, if installed, lists the tables that it manages. Citus itself moves the catalog there. */
const CATALOG = 'pg_catalog.pg_dist_partition'

/**
 * Refuses tables that Citus has distributed or otherwise manages. On these, row locks, ctids and the order of statements do
 * not behave as the protocol needs, and each node has its own part of a sequence: payloads would be lost unnoticed. A node
 * that is reached directly, with its own tables, is like any other server.
 * @throws DatabaseError `LOCKSTEP_DISTRIBUTED`
 */
export async function refuseDistributed(ask: Ask, schema: string): Promise<void> {
  const [found] = await ask<{ installed: boolean }>(
    `SELECT pg_catalog.to_regclass('${CATALOG}') IS NOT NULL AS installed`,
  )
  if (!found!.installed) return
  const tables = await ask<{ name: string }>(
    `SELECT c.relname::text AS name FROM ${CATALOG} d
     JOIN pg_catalog.pg_class c ON c.oid = d.logicalrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1::text ORDER BY 1`,
    [schema],
  )
  if (tables.length === 0) return
  const prefix = quoteIdentifier(schema)
  throw new DatabaseError(
    'LOCKSTEP_DISTRIBUTED',
    `Citus has distributed tables of the schema ${prefix} (${tables.map(({ name }) => name).join(', ')}), which pg-lockstep can't use: undo that (SELECT undistribute_table('${prefix}.${tables[0]!.name}')), or use a schema on one node and connect to that node directly`,
  )
}
