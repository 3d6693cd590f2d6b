import { OptionError } from '../errors.ts'
import { show } from '../options.ts'
import { isIdentifier, MAX_BYTES, quoteIdentifier } from './schema-name.ts'
import { readSql } from './sql-file.ts'

/** The roles that use a schema without owning it. */
export interface RoleNames {
  /** Only pushes. */
  readonly producer: string
  /** A worker process. */
  readonly worker: string
  /** Only reads. */
  readonly viewer: string
  /** `lockstep serve`. */
  readonly gateway: string
}

export const DEFAULT_ROLES: RoleNames = {
  producer: 'lockstep_producer',
  worker: 'lockstep_worker',
  viewer: 'lockstep_viewer',
  gateway: 'lockstep_gateway',
}

/** In its own folder, since a migration runs the files in all others, and grants nothing. */
const ROLES_FILE = 'roles/roles.sql'

/**
 * SQL for the owner to run. It creates missing roles and grants each the rights it needs.
 * @throws OptionError for a name that a role can't have
 */
export async function rolesSql(schema: string, roles: RoleNames): Promise<string> {
  const names = [roles.producer, roles.worker, roles.viewer, roles.gateway].map(checkRoleName)
  const [producer, worker, viewer, gateway] = names.map(quoteIdentifier)
  const text = await readSql(ROLES_FILE, {
    schema: quoteIdentifier(schema),
    producer: producer!,
    worker: worker!,
    viewer: viewer!,
    gateway: gateway!,
    names: names.map(quoteLiteral).join(', '),
  })
  return text.trimEnd()
}

/** Even quoted, GRANT takes "public" to mean everyone. The dollars would end the block that contains the name. */
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
