import type { Command } from 'commander'
import { DEFAULT_ROLES, type RoleNames, rolesSql } from '../postgres/roles.ts'
import { checkSchemaName } from '../postgres/schema-name.ts'
import { schemaOption } from './connection.ts'
import { write } from './output.ts'

const HELP = `
  producer  may push jobs and create queues, but see or change nothing else
  worker    may do what lockstep work does
  viewer    may read queues, jobs, payloads and the morgue, but write nothing
  gateway   may do what lockstep serve does

The SQL creates missing roles without LOGIN; grant them to your login roles. It also
revokes whatever else the roles were granted. Run it as the owner of the schema, after
lockstep migrate and after every upgrade. The command itself needs no database.

Examples:
  $ lockstep roles | psql --single-transaction --set ON_ERROR_STOP=1 "$OWNER_URL"
  $ lockstep roles --schema jobs --producer web --worker jobs_worker

Exit codes: 0 success, 2 wrong usage.`

interface RolesFlags extends RoleNames {
  readonly schema: string
}

export function addRoles(program: Command): void {
  program
    .command('roles')
    .summary('print SQL for least-privilege roles')
    .description(
      'print SQL that grants a producer, a worker, a viewer and a gateway only the rights they need',
    )
    .option('--producer <role>', 'role that pushes jobs', DEFAULT_ROLES.producer)
    .option('--worker <role>', 'role of workers', DEFAULT_ROLES.worker)
    .option('--viewer <role>', 'role that only reads', DEFAULT_ROLES.viewer)
    .option('--gateway <role>', 'role of gateways', DEFAULT_ROLES.gateway)
    .addOption(schemaOption())
    .addHelpText('after', HELP)
    .action(roles)
}

async function roles({ schema, ...names }: RolesFlags): Promise<void> {
  write(await rolesSql(checkSchemaName(schema), names))
}
