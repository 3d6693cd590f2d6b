import type { Command } from 'commander'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { follow } from './follow.ts'
import { quote } from './suggest.ts'

const HELP = `
Fails while the queue holds waiting jobs or dead payloads, unless you pass --with-jobs. Always fails while a worker
serves the queue or has one of its jobs in work. A push or a worker that names the queue later creates it again.

Examples:
  $ lockstep delete-queue orders
  $ lockstep delete-queue orders --with-jobs

Exit codes: 0 deleted, 1 refused or failed, 2 wrong usage, 130 interrupted
(129 by SIGHUP, 143 by SIGTERM).`

interface DeleteQueueFlags extends ConnectionOptions, ActorFlags {
  readonly withJobs?: boolean
}

export function addDeleteQueue(program: Command): void {
  const command = program
    .command('delete-queue')
    .description('delete a queue')
    .argument('<queue>')
    .option('--with-jobs', 'also delete its waiting jobs and dead payloads, for good')
  withConnection(withActor(command)).addHelpText('after', HELP).action(deleteQueue)
}

async function deleteQueue(queue: string, { withJobs, ...flags }: DeleteQueueFlags): Promise<void> {
  const done = `deleted, and queue ${quote(queue)} with them`
  await connected(flags, ({ lockstep }) =>
    follow({ label: 'delete', noun: 'row', done, json: flags.json }, (signal) =>
      lockstep.deleteQueue(queue, { withJobs, signal, by: actorOf(flags) }),
    ),
  )
}
