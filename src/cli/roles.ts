import type { Command } from 'commander'
import { DEFAULT_ROLES, type RoleNames, rolesSql } from '../postgres/roles.ts'
import { checkSchemaName } from '../postgres/schema-name.ts'
import { schemaOption } from './connection.ts'
import { write } from './output.ts'

const HELP = `
  producer  may push and create queues, and see or change nothing else
  worker    may do what lockstep work does
  viewer    may read queues, jobs, payloads and the morgue, and write nothing

Roles that are missing are created without LOGIN; grant them to those who log in.
Needs no database: the owner of the schema runs what it prints, after lockstep migrate
and again after every upgrade. What the roles were granted otherwise is taken back.

Examples:
  $ lockstep roles | psql --single-transaction --set ON_ERROR_STOP=1 "$OWNER_URL"
  $ lockstep roles --schema jobs --producer web --worker jobs_worker

Exit codes: 0 ok, 2 wrong usage.`

interface RolesFlags extends RoleNames {
  readonly schema: string
}

export function addRoles(program: Command): void {
  program
    .command('roles')
    .summary('print SQL for least-privilege roles')
    .description('Writes SQL that grants a producer, a worker and a viewer what each needs, and no more.')
    .option('--producer <role>', 'who pushes', DEFAULT_ROLES.producer)
    .option('--worker <role>', 'who works', DEFAULT_ROLES.worker)
    .option('--viewer <role>', 'who looks', DEFAULT_ROLES.viewer)
    .addOption(schemaOption())
    .addHelpText('after', HELP)
    .action(roles)
}

async function roles({ schema, ...names }: RolesFlags): Promise<void> {
  write(await rolesSql(checkSchemaName(schema), names))
}
