import type { Command } from 'commander'
import { checkConnection, withConnection } from './connection.ts'
import { EXIT } from './exit.ts'
import { reportFailure } from './failure.ts'
import { collect, wholeNumberOption } from './numbers.ts'
import type { WorkFlags } from './work/flags.ts'
import { WORK_HELP } from './work/help.ts'

const A_DAY = 24 * 3600 * 1000

export function addWork(program: Command): void {
  const command = program
    .command('work')
    .summary('work queues off')
    .description('Performs the jobs of the queues that a module defines, until it is told to stop.')
    .requiredOption('-r, --require <module>', 'module that exports queues; may be repeated', collect)
    .option('--queues <names>', 'serve these only, separated by commas')
    .option('--slots <n>', 'jobs at a time in each process (default: 5)', wholeNumberOption(1, 1_000))
    .option('--processes <n>', 'processes to run', wholeNumberOption(1, 1_000), 1)
    .option('--scheduler <kind>', 'what to serve next', 'fair')
    .option('--splitter <kind>', 'who serves which shards', 'dynamic')
    .option(
      '--lease <ms>',
      'how long a silent process keeps its jobs (default: 10000)',
      wholeNumberOption(500, A_DAY),
    )
    .option('--poll <ms>', 'between regular full looks (default: 1000)', wholeNumberOption(10, A_DAY))
    .option(
      '--shutdown-timeout <ms>',
      'for handlers to end by themselves (default: 25000)',
      wholeNumberOption(0, A_DAY),
    )
    .option('--drain', 'end when nothing of the queues waits or is in work')
  withConnection(command).addHelpText('after', WORK_HELP).action(work)
}

/** A start that is refused by a later release's definitions ends as a worker that they stop. */
function failureCode(error: unknown): number {
  const code = reportFailure(error)
  return (error as { code?: string } | undefined)?.code === 'LOCKSTEP_SCHEMA_NEW' ? EXIT.outdated : code
}

/** Other commands end when nobody reads what they print any more. Jobs have to be done all the same, whatever handlers print. */
function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.removeAllListeners('error').on('error', () => {})
}

/** The process exits here: a module of queues may hold connections of its own open. */
async function work(flags: WorkFlags): Promise<void> {
  checkConnection(flags)
  outliveReaders()
  const { followParent, reportReady, supervise, supervisedAs } = await import('./work/supervisor.ts')
  const rank = supervisedAs()
  const { processes, drain = false, json = false } = flags
  if (processes > 1 && !rank) {
    const { createLogger } = await import('./work/log.ts')
    process.exit(await supervise({ processes, drain, logger: createLogger(json) }))
  }
  if (rank) followParent()
  const { runWorker } = await import('./work/run.ts')
  const working = runWorker(flags, rank ?? { index: 0, of: 1 }, rank && reportReady)
  process.exit(await working.catch(failureCode))
}
