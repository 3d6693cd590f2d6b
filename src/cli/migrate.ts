import type { Command } from 'commander'
import { checkSchemaName } from '../postgres/schema-name.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { printable, write, writeJson } from './output.ts'

const HELP = `
Safe to run at every deployment, by several hosts at once: one works, the others wait. --print needs no database.

Examples:
  $ lockstep migrate
  $ lockstep migrate --schema jobs
  $ lockstep migrate --print > db/migrate/0042_lockstep.sql

Exit codes: 0 the schema is that of this release, 1 it could not be migrated, 2 wrong usage.`

interface MigrateFlags extends ConnectionOptions {
  readonly print?: boolean
}

export function addMigrate(program: Command): void {
  const command = program
    .command('migrate')
    .summary('create or upgrade the schema')
    .description('Brings the schema up to this release: numbered migrations, then functions and views.')
    .option('--print', 'write the whole schema as SQL instead, for your own migrations')
  withConnection(command).addHelpText('after', HELP).action(migrate)
}

async function migrate(flags: MigrateFlags): Promise<void> {
  if (flags.print) {
    const { migrationSql } = await import('../postgres/migrate.ts')
    return write(await migrationSql(checkSchemaName(flags.schema)))
  }
  const { applied } = await connected(flags, ({ lockstep }) => lockstep.migrate())
  if (flags.json) return writeJson({ schema: flags.schema, applied })
  const news = applied.length > 0 ? `applied ${applied.join(', ')}` : 'nothing to do, it is up to date'
  write(`schema "${printable(flags.schema)}": ${news}`)
}
