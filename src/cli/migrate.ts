import type { Command } from 'commander'
import type { MigrationReport } from '../index.ts'
import { checkSchemaName } from '../postgres/schema-name.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { printable, write, writeJson } from './output.ts'

const HELP = `
Run it before you start the processes of a new release; those of the previous release keep working. You can run it at
every deployment, on several hosts at once: one migrates, the others wait. It never downgrades: it leaves alone what a
later release has made. If others hold locks, it waits a moment, lets everyone else go first and retries, for a minute.
It raises sequences that are behind their rows, as after restoring only the tables. --print needs no database.

Examples:
  $ lockstep migrate
  $ lockstep migrate --schema jobs
  $ lockstep migrate --print > db/migrate/0042_lockstep.sql

Exit codes: 0 the schema is that of this release, or of a later one that still
serves it, 1 the migration failed, 2 wrong usage.`

interface MigrateFlags extends ConnectionOptions {
  readonly print?: boolean
}

export function addMigrate(program: Command): void {
  const command = program
    .command('migrate')
    .summary('create or upgrade the schema')
    .description('bring the schema up to this release: numbered migrations, then functions and views')
    .option('--print', 'print the whole schema as SQL instead, for your own migrations')
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
  if (report.carries === false)
    write('new jobs still take two rows each, as transactions from before may go on: run it again later')
}

function newsOf({ applied, defined, newer }: MigrationReport): string {
  if (newer) return `unchanged: release ${printable(newer.version)} has migrated it, and serves this one too`
  if (applied.length > 0) return `applied ${applied.join(', ')}`
  return defined ? 'functions and views are up to date' : 'already up to date'
}
