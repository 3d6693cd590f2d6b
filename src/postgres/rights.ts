import { DatabaseError } from '../errors.ts'
import type { Database } from './database.ts'
import type { RoleNames } from './roles.ts'
import { quoteIdentifier } from './schema-name.ts'
import { readSql } from './sql-file.ts'

/** One right on one object in the schema. */
export interface Right {
  readonly kind: 'FUNCTION' | 'PROCEDURE' | 'SEQUENCE' | 'TABLE'
  /** Of a function with several forms, with the types of one. */
  readonly name: string
  readonly privilege: string
  /** Only on this column. */
  readonly column: string | null
}

/** Most rights that an error names; a role that lacks one usually lacks most. */
const NAMED = 4

const GRANT =
  /^GRANT (?<privileges>[^;]*?)\s+ON (?<kind>FUNCTION|PROCEDURE|SEQUENCE|TABLE)\s+(?<names>[^;]*?)\s+TO (?<roles>[^;]*);/gm
/** A privilege and its columns. */
const PRIVILEGE = /(?<privilege>[A-Z]+)(?: \((?<columns>[^)]*)\))?/g

/** Processes that do not begin without all rights of their role. */
export type Insistent = Extract<keyof RoleNames, 'worker' | 'gateway'>

/** The rights that `lockstep roles` grants a role. Read from its SQL, so that processes require exactly those. */
export async function rightsOf(role: Insistent): Promise<Right[]> {
  const text = await readSql('roles/roles.sql', {})
  const grants = [...text.matchAll(GRANT)].filter(({ groups }) =>
    listed(groups!.roles!).includes(`@${role}@`),
  )
  const rights = grants.flatMap(({ groups }) => {
    const kind = groups!.kind as Right['kind']
    const privileges = [...groups!.privileges!.matchAll(PRIVILEGE)]
    return listed(groups!.names!).flatMap((place) => {
      const name = place.replace('@schema@.', '')
      return privileges.flatMap(({ groups: { privilege, columns } = {} }) =>
        (columns ? listed(columns) : [null]).map((column) => ({ kind, name, privilege: privilege!, column })),
      )
    })
  })
  // A function may be granted twice, for the sake of two roles.
  return [...new Map(rights.map((right) => [JSON.stringify(right), right])).values()]
}

/** Commas between the types of a function part nothing. */
function listed(text: string): string[] {
  return text.split(/,(?![^(]*\))/).map((part) => part.trim())
}

/** Ignores objects that do not exist: a later release may have dropped them and still serve this one. */
function missingRights(prefix: string): string {
  return `SELECT n.kind, n.name, n.privilege, n.column FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
      WITH ORDINALITY AS n(kind, name, privilege, "column", place)
    CROSS JOIN LATERAL (SELECT pg_catalog.to_regclass('${prefix}.' || pg_catalog.quote_ident(n.name))::oid AS relation) r
    WHERE NOT CASE
      WHEN n.name LIKE '%(%' THEN pg_catalog.has_function_privilege(pg_catalog.to_regprocedure('${prefix}.' || n.name), n.privilege)
      WHEN n.kind IN ('FUNCTION', 'PROCEDURE') THEN (
        SELECT bool_and(pg_catalog.has_function_privilege(p.oid, n.privilege)) FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = '${prefix}'::regnamespace AND p.proname = n.name
      )
      WHEN n.kind = 'SEQUENCE' THEN pg_catalog.has_sequence_privilege(r.relation, n.privilege)
      WHEN n.column IS NULL THEN pg_catalog.has_table_privilege(r.relation, n.privilege)
      ELSE (
        SELECT pg_catalog.has_column_privilege(r.relation, a.attnum, n.privilege) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = r.relation AND a.attname = n.column
      )
    END
    ORDER BY n.place`
}

/**
 * Called before a worker starts: a worker that may register and lock shards, but not claim, would block the others. Before a gateway
 * listens, it says what clients would find out one by one.
 * @throws DatabaseError `LOCKSTEP_PERMISSION`, naming the missing rights
 */
export async function requireRights(database: Database, role: Insistent): Promise<void> {
  const rights = await rightsOf(role)
  const columns = (['kind', 'name', 'privilege', 'column'] as const).map((key) =>
    rights.map((one) => one[key]),
  )
  const prefix = quoteIdentifier(database.schema)
  const missing = await database.query<Right>(missingRights(prefix.replaceAll("'", "''")), columns)
  if (missing.length === 0) return
  const [user] = await database.query<{ name: string }>('SELECT current_user AS name')
  const named = missing.slice(0, NAMED).map((right) => shown(right, prefix))
  const more = missing.length > NAMED ? ` and ${missing.length - NAMED} more` : ''
  throw new DatabaseError(
    'LOCKSTEP_PERMISSION',
    `the role "${user!.name}" lacks rights that a ${role} needs: ${named.join(', ')}${more}; run the SQL from \`lockstep roles\` as the schema's owner, and grant the role for ${role}s to it`,
  )
}

function shown({ kind, name, privilege, column }: Right, prefix: string): string {
  return `${privilege}${column ? ` (${column})` : ''} on ${kind.toLowerCase()} ${prefix}.${name}`
}
