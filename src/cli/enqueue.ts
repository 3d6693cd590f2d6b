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
    .description('push a job into a queue for every row of a file or of stdin')
    .argument('<queue>', 'name of the queue; created if it does not exist')
    .argument('[file]', 'CSV (.csv) or NDJSON (.ndjson, .jsonl); default or -: stdin')
    .option('--csv [file]', 'the input is CSV with a header')
    .option('--ndjson [file]', 'the input has a JSON object on each line')
    .requiredOption('--id <column>', 'column with the id; rows with the same id are processed in order')
    .option('--score <column>', 'column that orders the rows of an id (default: now)')
    .option('--perform-in <column>', 'column with the earliest time to start the job')
    .option('--expires-in <column>', 'column with the time after which the payload is never handed over')
    .option('--lane <column>', 'column with the lane, 0 to 32767')
    .option('--tenant <column>', 'column with the tenant that the job is for')
    .option('--payload <column>', 'column with the payload (default: the whole row)')
    .option('--headers <column>', 'column with the headers, a JSON object')
    .option('--delimiter <character>', 'separator of CSV fields; \\t is a tab', delimiterOption, ',')
    .option('--skip <rows>', 'skip the first rows, to continue after a failure', wholeNumberOption(0), 0)
    .option(
      '--shards <n>',
      `shards of a new queue (default: ${DEFAULT_SHARDS})`,
      wholeNumberOption(1, MAX_SHARDS),
    )
    .option('--shuffle', 'push in random order; keeps the whole file in memory, up to 256 MiB')
    .addOption(
      new Option('--seed <seed>', 'repeat the order of a failed --shuffle; see its error (default: random)')
        .argParser(seedOption)
        .implies({ shuffle: true }),
    )
    .option('--dry-run', 'check every row without storing anything; needs no database')
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
