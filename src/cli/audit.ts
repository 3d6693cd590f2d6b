import type { Command } from 'commander'
import type { AuditEntry } from '../index.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { wholeNumberOption } from './numbers.ts'
import { count, duration, excerpt, excerptOfPayload, note, table, write, writeJson } from './output.ts'

const HELP = `
The commands that change jobs or queues are recorded before they begin. An entry without
an end still runs, or was interrupted: then a part of it may have been done. From code,
what is done with \`by\` is recorded. Workers delete entries that are older than 90 days.

Examples:
  $ lockstep audit
  $ lockstep audit --limit 1000 --json | jq '.[] | select(.queue == "orders")'

Exit codes: 0 success, 1 failure, 2 wrong usage.`

interface AuditFlags extends ConnectionOptions {
  readonly limit: number
  readonly before?: number
}

export function addAudit(program: Command): void {
  const command = program
    .command('audit')
    .description('show who changed jobs and queues, the latest first')
    .option('--limit <n>', 'show at most n', wholeNumberOption(1, 1_000), 100)
    .option('--before <id>', 'only what came before this entry', wholeNumberOption(1))
  withConnection(command).addHelpText('after', HELP).action(audit)
}

async function audit({ limit, before, ...flags }: AuditFlags): Promise<void> {
  const entries = await connected(flags, ({ lockstep }) => lockstep.audit({ limit, before }))
  if (flags.json) return writeJson(entries)
  write(entries.length === 0 ? 'nothing is recorded' : tableOf(entries))
  if (entries.length === limit) note(`there may be more; show them with --before ${entries.at(-1)!.id}`)
}

function tableOf(entries: readonly AuditEntry[]): string {
  const columns = [
    { head: 'id', right: true },
    { head: 'began at' },
    { head: 'took', right: true },
    { head: 'by' },
    { head: 'role' },
    { head: 'action' },
    { head: 'queue' },
    { head: 'details' },
    { head: 'affected', right: true },
    { head: 'error' },
  ]
  return table(
    columns,
    entries.map(({ id, beganAt, endedAt, by, role, action, queue, details, affected, error }) => [
      String(id),
      beganAt.toISOString(),
      endedAt ? duration(Math.max(0, endedAt.getTime() - beganAt.getTime())) : 'not ended',
      excerpt(by, 30),
      excerpt(role, 30),
      action,
      excerpt(queue ?? '', 40),
      excerptOfPayload(details, 40),
      affected === null ? '' : count(affected),
      excerpt(error?.split('\n')[0] ?? '', 60),
    ]),
  )
}
