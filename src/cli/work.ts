import type { Command } from 'commander'
import { checkConnection, withConnection } from './connection.ts'
import { EXIT } from './exit.ts'
import { reportFailure } from './failure.ts'
import { collect, wholeNumberOption } from './numbers.ts'
import type { WorkFlags } from './work/flags.ts'
import { collectEarly } from './work/garbage.ts'
import { WORK_HELP } from './work/help.ts'

const A_DAY = 24 * 3600 * 1000

export function addWork(program: Command): void {
  const command = program
    .command('work')
    .summary('process the jobs of queues')
    .description('process the jobs of the queues that a module defines, until told to stop')
    .requiredOption('-r, --require <module>', 'module that exports queues; may be repeated', collect)
    .option('--queues <names>', 'serve only these queues, separated by commas')
    .option('--slots <n>', 'handlers at a time in each process (default: 5)', wholeNumberOption(1, 1_000))
    .option('--processes <n>', 'number of processes', wholeNumberOption(1, 1_000), 1)
    .option('--scheduler <kind>', 'how to pick the shard to serve next (default: fair)')
    .option('--splitter <kind>', 'how to assign shards to processes (default: dynamic)')
    .option(
      '--lease <ms>',
      'how long a silent process keeps its jobs (default: 10000)',
      wholeNumberOption(500, A_DAY),
    )
    .option('--poll <ms>', 'time between regular full looks (default: 1000)', wholeNumberOption(10, A_DAY))
    .option(
      '--shutdown-timeout <ms>',
      'time for handlers to end by themselves (default: 25000)',
      wholeNumberOption(0, A_DAY),
    )
    .option(
      '--health-port <port>',
      'answer probes at this port: /livez, /readyz, /startupz',
      wholeNumberOption(0, 65_535),
    )
    .option('--health-host <address>', 'answer them at this address only (default: all)')
    .option('--drain', 'exit when no job of the queues waits or is in work')
  withConnection(command).addHelpText('after', WORK_HELP).action(work)
}

/** A worker that can't start because of a later release's definitions exits like one that they stop. */
function failureCode(error: unknown): number {
  const code = reportFailure(error)
  return (error as { code?: string } | undefined)?.code === 'LOCKSTEP_SCHEMA_NEW' ? EXIT.outdated : code
}

/** Other commands end when the reader of their output goes away. A worker must go on, whatever its handlers print. */
function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.removeAllListeners('error').on('error', () => {})
}

/** Exits explicitly, since a queue module may keep its own connections open. */
async function work(flags: WorkFlags): Promise<void> {
  checkConnection(flags)
  outliveReaders()
  collectEarly()
  const { followParent, reportReady, supervise, supervisedAs } = await import('./work/supervisor.ts')
  const { stopWithoutParent } = await import('./orphan.ts')
  const { healthAddress } = await import('./work/health-server.ts')
  const rank = supervisedAs()
  const health = healthAddress(flags)
  const { processes, drain = false, json = false } = flags
  if (processes > 1 && !rank) {
    stopWithoutParent()
    const { createLogger } = await import('./work/log.ts')
    const supervising = supervise({ processes, drain, health, logger: createLogger(json) })
    process.exit(await supervising.catch(failureCode))
  }
  if (rank) followParent()
  else stopWithoutParent()
  const { runWorker } = await import('./work/run.ts')
  const working = runWorker(flags, rank ?? { index: 0, of: 1 }, rank && reportReady)
  process.exit(await working.catch(failureCode))
}
