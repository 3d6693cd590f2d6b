import type { Command } from 'commander'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { follow } from './follow.ts'
import { wholeNumberOption } from './numbers.ts'
import { plural } from './output.ts'
import { quote } from './suggest.ts'

const HELP = `
You can run it while the queue is in use. Growing moves no jobs; shrinking moves the jobs
of the removed shards, in chunks. If it was interrupted, run it again with the same number
to finish. A worker whose definition names more shards grows the queue when it starts, so
lower the definition before you shrink. If the definition names fewer, the worker logs it.

Example:
  $ lockstep reshard orders 24

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted
(129 by SIGHUP, 143 by SIGTERM).`

export function addReshard(program: Command): void {
  const command = program
    .command('reshard')
    .description('change the number of shards of a queue')
    .argument('<queue>')
    .argument('<shards>', '1 to 16384', wholeNumberOption(1, 16_384))
  withConnection(withActor(command)).addHelpText('after', HELP).action(reshard)
}

async function reshard(queue: string, shards: number, flags: ConnectionOptions & ActorFlags): Promise<void> {
  const done = `moved; queue ${quote(queue)} has ${plural(shards, 'shard')}`
  await connected(flags, ({ lockstep }) =>
    follow({ label: 'reshard', noun: 'job', done, json: flags.json }, (signal) =>
      lockstep.reshard(queue, shards, { signal, by: actorOf(flags) }),
    ),
  )
}
