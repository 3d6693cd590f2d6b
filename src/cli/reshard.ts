import type { Command } from 'commander'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { follow } from './follow.ts'
import { wholeNumberOption } from './numbers.ts'
import { plural } from './output.ts'
import { quote } from './suggest.ts'

const HELP = `
Works while the queue is in use. Growing moves nothing; shrinking moves the jobs of
the shards that go, in chunks. Run again with the same number, it finishes what was
interrupted. Workers whose definition names more shards grow the queue to them when they
start: to shrink it, lower the definition first. Where it names fewer, they remark on it.

Example:
  $ lockstep reshard orders 24

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (by
SIGHUP 129, by SIGTERM 143).`

export function addReshard(program: Command): void {
  const command = program
    .command('reshard')
    .description('Gives a queue another number of shards.')
    .argument('<queue>')
    .argument('<shards>', '1 to 16384', wholeNumberOption(1, 16_384))
  withConnection(command).addHelpText('after', HELP).action(reshard)
}

async function reshard(queue: string, shards: number, flags: ConnectionOptions): Promise<void> {
  const done = `moved; queue ${quote(queue)} has ${plural(shards, 'shard')}`
  await connected(flags, ({ lockstep }) =>
    follow({ label: 'reshard', noun: 'job', done, json: flags.json }, (signal) =>
      lockstep.reshard(queue, shards, { signal }),
    ),
  )
}
