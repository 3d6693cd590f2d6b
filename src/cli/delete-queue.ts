import type { Command } from 'commander'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { follow } from './follow.ts'
import { quote } from './suggest.ts'

const HELP = `
Refused while the queue holds waiting jobs or dead payloads, unless told, and always while a worker serves it or has
a job of it in work. A push or a worker that names the queue afterwards makes it again.

Examples:
  $ lockstep delete-queue orders
  $ lockstep delete-queue orders --with-jobs

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted (by
SIGHUP 129, by SIGTERM 143).`

interface DeleteQueueFlags extends ConnectionOptions {
  readonly withJobs?: boolean
}

export function addDeleteQueue(program: Command): void {
  const command = program
    .command('delete-queue')
    .description('Deletes a queue.')
    .argument('<queue>')
    .option('--with-jobs', 'its waiting jobs and dead payloads too, for good')
  withConnection(command).addHelpText('after', HELP).action(deleteQueue)
}

async function deleteQueue(queue: string, { withJobs, ...flags }: DeleteQueueFlags): Promise<void> {
  const done = `deleted, and queue ${quote(queue)} with them`
  await connected(flags, ({ lockstep }) =>
    follow({ label: 'delete', noun: 'row', done, json: flags.json }, (signal) =>
      lockstep.deleteQueue(queue, { withJobs, signal }),
    ),
  )
}
