import { OptionError } from '../errors.ts'
import { show } from '../options.ts'
import { isIdentifier, MAX_BYTES, quoteIdentifier } from './schema-name.ts'
import { readSql } from './sql-file.ts'

/** Who uses a schema without owning it. */
export interface RoleNames {
  /** Only pushes. */
  readonly producer: string
  /** A worker process. */
  readonly worker: string
  /** Only reads. */
  readonly viewer: string
}

export const DEFAULT_ROLES: RoleNames = {
  producer: 'lockstep_producer',
  worker: 'lockstep_worker',
  viewer: 'lockstep_viewer',
}

/** In a folder of its own: a migration makes everything that lies beside it, and grants nothing. */
const ROLES_FILE = 'roles/roles.sql'

/**
 * SQL that creates the roles where they are missing and grants each what it needs, for the owner to run.
 * @throws OptionError for what can't be the name of a role
 */
export async function rolesSql(schema: string, roles: RoleNames): Promise<string> {
  const names = [roles.producer, roles.worker, roles.viewer].map(checkRoleName)
  const [producer, worker, viewer] = names.map(quoteIdentifier)
  const text = await readSql(ROLES_FILE, {
    schema: quoteIdentifier(schema),
    producer: producer!,
    worker: worker!,
    viewer: viewer!,
    names: names.map(quoteLiteral).join(', '),
  })
  return text.trimEnd()
}

/** Quoted or not, GRANT takes "public" for everybody. The dollars would end the block that the name stands in. */
function checkRoleName(name: string): string {
  if (isIdentifier(name) && !name.includes('$roles$') && name !== 'public' && name !== 'none') return name
  throw new OptionError(
    `a role must be 1 to ${MAX_BYTES} bytes of text without control characters, not starting with pg_, not public or none; got ${show(name)}`,
  )
}

function quoteLiteral(text: string): string {
  const quoted = text.replaceAll("'", "''")
  return text.includes('\\') ? `E'${quoted.replaceAll('\\', '\\\\')}'` : `'${quoted}'`
}
