import { type Command, Option } from 'commander'
import { defineQueue } from '../index.ts'
import { DEFAULT_SHARDS, MAX_SHARDS } from '../queue.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { ENQUEUE_HELP } from './enqueue/help.ts'
import { delimiterOption, type InputFlags, inputOf } from './enqueue/input.ts'
import { Run, type RunFlags } from './enqueue/run.ts'
import { seedOption } from './enqueue/shuffle.ts'
import { wholeNumberOption } from './numbers.ts'
import { quote } from './suggest.ts'

interface EnqueueFlags extends ConnectionOptions, InputFlags, RunFlags {
  readonly shards?: number
}

export function addEnqueue(program: Command): void {
  const command = program
    .command('enqueue')
    .summary('push the rows of a CSV or NDJSON file')
    .description('Pushes a job for every row of a file, or of stdin, into a queue.')
    .argument('<queue>', 'name of the queue; created where it is missing')
    .argument('[file]', 'CSV (.csv) or NDJSON (.ndjson, .jsonl); - or nothing is stdin')
    .option('--csv [file]', 'it is CSV with a header')
    .option('--ndjson [file]', 'it has a JSON object on each line')
    .requiredOption('--id <column>', 'column with the id: rows of one id are worked on in order')
    .option('--score <column>', "column with the row's place among those of its id (default: now)")
    .option('--perform-in <column>', 'column with the time before which not to start')
    .option('--lane <column>', 'column with the lane, 0 to 32767')
    .option('--payload <column>', 'column with the payload (default: the whole row)')
    .option('--delimiter <character>', 'between the fields of CSV; \\t is a tab', delimiterOption, ',')
    .option('--skip <rows>', 'leave out the first rows, to go on after a failure', wholeNumberOption(0), 0)
    .option(
      '--shards <n>',
      `shards of a new queue (default: ${DEFAULT_SHARDS})`,
      wholeNumberOption(1, MAX_SHARDS),
    )
    .option('--shuffle', 'push in random order; holds the whole file in memory, up to 256 MiB')
    .addOption(
      new Option('--seed <seed>', 'the order of --shuffle, as a failure tells it (default: random)')
        .argParser(seedOption)
        .implies({ shuffle: true }),
    )
    .option('--dry-run', 'only check every row; stores nothing, and needs no database')
  withConnection(command).addHelpText('after', ENQUEUE_HELP).action(enqueue)
}

async function enqueue(name: string, file: string | undefined, flags: EnqueueFlags): Promise<void> {
  const input = inputOf(file, flags)
  const queue = defineQueue(name, { shards: flags.shards })
  if (flags.dryRun) return new Run(flags, async () => 0).of(input, 'checked')
  await connected(flags, async ({ database }) => {
    const { storeIn } = await import('./enqueue/store.ts')
    const store = storeIn(database, queue, flags.shards)
    await new Run(flags, store).of(input, `pushed into ${quote(name)}`)
  })
}
