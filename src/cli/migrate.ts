import type { Command } from 'commander'
import type { MigrationReport } from '../index.ts'
import { checkSchemaName } from '../postgres/schema-name.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { printable, write, writeJson } from './output.ts'

const HELP = `
Run it before the processes of a new release start; those of the one before it go on. It is safe at every deployment,
by several hosts at once: one works, the others wait. It never goes back: what a later release has made is left alone.
Where others hold locks it waits a moment, lets everybody else go first, and comes again, for a minute.
Sequences that are behind their rows, as after a restore of tables alone, are raised. --print needs no database.

Examples:
  $ lockstep migrate
  $ lockstep migrate --schema jobs
  $ lockstep migrate --print > db/migrate/0042_lockstep.sql

Exit codes: 0 the schema is that of this release, or of a later one that serves it;
1 it could not be migrated, 2 wrong usage.`

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
  const report = await connected(flags, ({ lockstep }) => lockstep.migrate({ everyRow: true }))
  if (flags.json) return writeJson({ schema: flags.schema, ...report })
  write(`schema "${printable(flags.schema)}": ${newsOf(report)}`)
  for (const { sequence, from, to } of report.raised)
    write(`sequence ${printable(sequence)} was behind its rows: raised from ${from} to ${to}`)
}

function newsOf({ applied, defined, newer }: MigrationReport): string {
  if (newer) return `left as release ${printable(newer.version)} has made it, which serves this one too`
  if (applied.length > 0) return `applied ${applied.join(', ')}`
  return defined ? 'functions and views are up to date' : 'nothing to do, it is up to date'
}
