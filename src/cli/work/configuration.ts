import type { Configure, WorkConfiguration } from '../../index.ts'
import { rejectUnknownOptions } from '../../options.ts'
import { settlesWithin } from '../../promises.ts'
import { UsageError } from '../failure.ts'
import { Interrupted } from '../interruption.ts'
import { printable } from '../output.ts'

const KEYS = [
  'logger',
  'instrumentation',
  'middleware',
  'scheduler',
  'splitter',
  'formatError',
  'onWorker',
  'stop',
]
/** ms that the tear-down may take: the process ends in any case. */
export const STOP_TIMEOUT = 5_000

/** ms that `configure` may take: what it waits for so long will hardly come. */
const CONFIGURE_TIMEOUT = 60_000

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

export interface FoundConfigure {
  readonly file: string
  readonly configure: Configure
}

/**
 * What the only module says that exports `configure`. A signal that stops a worker ends the process meanwhile.
 * @throws UsageError if several do, or if it fails, takes longer than `limit` ms or returns something else; OptionError for
 * an unknown field
 */
export async function configured(
  found: readonly FoundConfigure[],
  about: Parameters<Configure>[0],
  limit = CONFIGURE_TIMEOUT,
): Promise<WorkConfiguration> {
  const [only, another] = found
  if (!only) return {}
  const file = printable(only.file)
  if (another)
    throw new UsageError(`configure is exported by ${file} and by ${printable(another.file)}: keep one`)
  const given = await settled(async () => only.configure(about), file, limit)
  if (given === undefined) return {}
  if (typeof given !== 'object' || given === null)
    throw new UsageError(`configure() of ${file} must return an object, or nothing`)
  rejectUnknownOptions(given, KEYS, `configure() of ${file}`)
  return given
}

async function settled(configure: () => Promise<unknown>, file: string, limit: number): Promise<unknown> {
  const configuring = configure()
  const endListening = endAtSignals()
  try {
    if (!(await settlesWithin(configuring, limit)))
      throw new UsageError(
        `configure() of ${file} has not ended within ${limit} ms: look for what it awaits, and give that a time-out`,
      )
    return await configuring.catch((error) => {
      throw new UsageError(`configure() of ${file} failed: ${(error as Error)?.message ?? error}`, {
        cause: error,
      })
    })
  } finally {
    endListening()
  }
}

/** What `configure` sets up may listen to them, and Node would no longer end the process. Returns what ends this. */
function endAtSignals(): () => void {
  const end = (signal: NodeJS.Signals) => {
    process.removeAllListeners(signal)
    // The system spares process 1, that of a container.
    if (process.pid === 1) process.exit(new Interrupted(signal).exitCode)
    process.kill(process.pid, signal)
  }
  for (const signal of SIGNALS) process.on(signal, end)
  return () => SIGNALS.forEach((signal) => void process.off(signal, end))
}
