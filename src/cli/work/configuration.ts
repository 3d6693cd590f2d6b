import type { Configure, WorkConfiguration } from '../../index.ts'
import { rejectUnknownOptions } from '../../options.ts'
import { UsageError } from '../failure.ts'
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

export interface FoundConfigure {
  readonly file: string
  readonly configure: Configure
}

/**
 * What the only module says that exports `configure`.
 * @throws UsageError if several do, or if it fails or returns something else; OptionError for an unknown field
 */
export async function configured(
  found: readonly FoundConfigure[],
  about: Parameters<Configure>[0],
): Promise<WorkConfiguration> {
  const [only, another] = found
  if (!only) return {}
  const file = printable(only.file)
  if (another)
    throw new UsageError(`configure is exported by ${file} and by ${printable(another.file)}: keep one`)
  const given: unknown = await Promise.resolve(only.configure(about)).catch((error) => {
    throw new UsageError(`configure() of ${file} failed: ${(error as Error)?.message ?? error}`, {
      cause: error,
    })
  })
  if (given === undefined) return {}
  if (typeof given !== 'object' || given === null)
    throw new UsageError(`configure() of ${file} must return an object, or nothing`)
  rejectUnknownOptions(given, KEYS, `configure() of ${file}`)
  return given
}
