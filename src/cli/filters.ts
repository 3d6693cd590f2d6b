import { type Command, Option } from 'commander'
import type { DeadFilter, JobFilter, Page, Range } from '../index.ts'
import { UsageError } from './failure.ts'
import { collect, numberOption, timeOption, wholeNumberOption } from './numbers.ts'

interface CommonFlags {
  readonly id?: readonly string[]
  readonly idFrom?: string
  readonly idTo?: string
  /** False by --no-tenant. */
  readonly tenant?: string | false
  readonly all?: boolean
}

export interface JobFilterFlags extends CommonFlags {
  readonly performInFrom?: Date
  readonly performInTo?: Date
  readonly retryFrom?: number
  readonly retryTo?: number
}

export interface DeadFilterFlags extends CommonFlags {
  readonly diedFrom?: Date
  readonly diedTo?: Date
  readonly scoreFrom?: number
  readonly scoreTo?: number
  readonly digest?: readonly string[]
}

export interface PageFlags {
  readonly by?: string
  readonly desc?: boolean
  readonly limit?: number
  readonly after?: string
}

function withCommon(command: Command): Command {
  return command
    .option('--id <id>', 'this id only; may be repeated', collect)
    .option('--id-from <id>', 'ids from this one on, in byte order')
    .option('--id-to <id>', 'ids up to this one, in byte order')
    .option('--tenant <name>', 'of this tenant')
    .option('--no-tenant', 'of no tenant')
}

const WHOLE = wholeNumberOption(-1, 2 ** 31 - 1)

export function withJobFilter(command: Command): Command {
  return withCommon(command)
    .option('--perform-in-from <time>', 'due at this time or later', timeOption)
    .option('--perform-in-to <time>', 'due at this time or earlier', timeOption)
    .option('--retry-from <n>', 'retry count of n or more: -1 never failed, 0 failed once', WHOLE)
    .option('--retry-to <n>', 'retry count of n or less', WHOLE)
}

export function withDeadFilter(command: Command): Command {
  return withCommon(command)
    .option('--died-from <time>', 'died at this time or later', timeOption)
    .option('--died-to <time>', 'died at this time or earlier', timeOption)
    .option('--score-from <n>', 'score of n or more', numberOption)
    .option('--score-to <n>', 'score of n or less', numberOption)
    .option('--digest <hex>', 'payload with this digest; may be repeated', collect)
}

export function withPage(command: Command, sorts: readonly string[], byDefault: string): Command {
  return command
    .addOption(new Option('--by <column>', `sort by this column (default: ${byDefault})`).choices(sorts))
    .option('--desc', 'sort in descending order')
    .option('--limit <n>', 'show at most n (default: 100)', wholeNumberOption(1, 1_000))
    .option('--after <cursor>', 'continue where an earlier page ended')
}

/** `sorts`: what each column is called in the library. */
export function pageOf<Sort extends string>(
  { by, desc, limit, after }: PageFlags,
  sorts: Readonly<Record<string, Sort>>,
): Page<Sort> {
  return { by: by === undefined ? undefined : sorts[by], direction: desc ? 'desc' : 'asc', limit, after }
}

export function jobFilterOf(flags: JobFilterFlags): JobFilter {
  return given({
    ids: flags.id,
    id: rangeOf(flags.idFrom, flags.idTo),
    performIn: rangeOf(flags.performInFrom, flags.performInTo),
    retryCount: rangeOf(flags.retryFrom, flags.retryTo),
    tenant: tenantOf(flags),
  })
}

export function deadFilterOf(flags: DeadFilterFlags): DeadFilter {
  return given({
    ids: flags.id,
    id: rangeOf(flags.idFrom, flags.idTo),
    diedAt: rangeOf(flags.diedFrom, flags.diedTo),
    score: rangeOf(flags.scoreFrom, flags.scoreTo),
    digests: flags.digest,
    tenant: tenantOf(flags),
  })
}

function tenantOf({ tenant }: CommonFlags): string | null | undefined {
  return tenant === false ? null : tenant
}

function rangeOf<T>(from: T | undefined, to: T | undefined): Range<T> | undefined {
  return from === undefined && to === undefined ? undefined : given({ from, to })
}

/** Drops the keys whose value is undefined. */
function given<T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}

/**
 * A command that changes jobs must be told which ones: a forgotten filter must not match them all.
 * @throws UsageError
 */
export function requireChoice(filter: object, all: boolean | undefined): void {
  const filtered = Object.values(filter).some((value) => value !== undefined)
  if (filtered && all) throw new UsageError('--all and other filters exclude each other: use one of them')
  if (!filtered && !all) throw new UsageError('choose which ones: use --id, --tenant, a range, or --all')
}
