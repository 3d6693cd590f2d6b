import type { Command } from 'commander'
import { toPushedJob } from '../enqueue/validation.ts'
import type { NewJob } from '../job.ts'
import { hasCode } from '../postgres/failure.ts'
import { defineQueue, MAX_SHARDS } from '../queue.ts'
import { type Connection, type ConnectionOptions, connected, withConnection } from './connection.ts'
import { ENQUEUE_HELP } from './enqueue/help.ts'
import { delimiterOption, type Input, type InputFlags, inputOf, shuffled } from './enqueue/input.ts'
import { chunksOf, pushAll } from './enqueue/push.ts'
import { type Columns, inTermsOfTheFile, jobOf, type Row } from './enqueue/row.ts'
import { openSource } from './enqueue/source.ts'
import { Interrupted } from './failure.ts'
import { wholeNumberOption } from './numbers.ts'
import { duration, note, plural, write, writeJson } from './output.ts'
import { startProgress } from './progress.ts'
import { quote } from './suggest.ts'

const MAX_SHUFFLED_BYTES = 256 * 1024 * 1024
const DEFAULT_SHARDS = 5

interface EnqueueFlags extends ConnectionOptions, InputFlags, Columns {
  readonly skip: number
  readonly shards?: number
  readonly shuffle?: boolean
  readonly dryRun?: boolean
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
    .option('--dry-run', 'only check every row; needs no database')
  withConnection(command).addHelpText('after', ENQUEUE_HELP).action(enqueue)
}

type Store = (jobs: readonly NewJob[]) => Promise<unknown>

async function enqueue(name: string, file: string | undefined, flags: EnqueueFlags): Promise<void> {
  const input = inputOf(file, flags)
  const queue = defineQueue(name, { shards: flags.shards ?? DEFAULT_SHARDS })
  if (flags.dryRun) return run(input, flags, 'checked', async (jobs) => jobs.map(toPushedJob))
  await connected(flags, async ({ lockstep, database }) => {
    let ready: Promise<void> | undefined
    await run(input, flags, `pushed into ${quote(name)}`, async (jobs) => {
      ready ??= createMissing(database, name, flags.shards)
      await ready
      return lockstep.enqueue(queue, jobs)
    })
  })
}

async function run(input: Input, flags: EnqueueFlags, verb: string, store: Store): Promise<void> {
  const started = performance.now()
  const { id, score, performIn, lane, payload, shuffle, skip } = flags
  const columns = { id, score, performIn, lane, payload }
  const source = openSource(input.file, shuffle ? MAX_SHUFFLED_BYTES : undefined)
  const interrupt = () => void source.stream.destroy(new Interrupted())
  process.once('SIGINT', interrupt)
  const progress = startProgress({ label: source.name, noun: 'rows', total: source.size })
  try {
    const rows = input.rows(source, columns)
    const chunks = chunksOf(shuffle ? await shuffled(rows) : rows, skip, () => source.read)
    const push = (chunk: { rows: readonly Row[] }) => storeRows(chunk.rows, columns, store)
    const done = await pushAll(chunks, push, (rows) => progress.update(source.read, rows))
    progress.stop()
    report(done, performance.now() - started, verb, flags)
  } finally {
    progress.stop()
    process.off('SIGINT', interrupt)
  }
}

async function storeRows(rows: readonly Row[], columns: Columns, store: Store): Promise<void> {
  const jobs = rows.map((row) => jobOf(row, columns))
  await store(jobs).catch((error) => {
    throw inTermsOfTheFile(error, rows, columns)
  })
}

function report(rows: number, ms: number, verb: string, { json, dryRun }: EnqueueFlags): void {
  const perSecond = Math.round((rows * 1000) / Math.max(ms, 1))
  if (json) writeJson({ rows, stored: dryRun ? 0 : rows, seconds: ms / 1000, perSecond })
  else write(`${plural(rows, 'row')} ${verb} in ${duration(ms)} (${plural(perSecond, 'row')} a second)`)
}

async function createMissing(
  database: Connection['database'],
  name: string,
  shards: number | undefined,
): Promise<void> {
  const { ensureQueue, listQueues } = await import('../store/queue.ts')
  // A producer's role may create queues without seeing any: then nobody knows whether it is new.
  const queues = await listQueues(database, [name]).catch((error) => {
    if (!hasCode(error, 'LOCKSTEP_PERMISSION')) throw error
  })
  const [found] = queues ?? []
  if (!found) {
    await ensureQueue(database, name, shards ?? DEFAULT_SHARDS)
    if (queues) note(`queue ${quote(name)} is new: created with ${plural(shards ?? DEFAULT_SHARDS, 'shard')}`)
  } else if (shards !== undefined && shards !== found.shards) {
    note(`queue ${quote(name)} keeps its ${plural(found.shards, 'shard')}: see \`lockstep reshard\``)
  }
}
