import { setTimeout } from 'node:timers/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { Rates } from '../admin/rates.ts'
import type { Lockstep, ProcessRow, Stats } from '../index.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { plural, printable, write, writeJson } from './output.ts'
import { processTable } from './process-table.ts'
import { statsTable } from './stats.ts'

const HELP = `
The columns are those of lockstep stats; "per s" is rounds per second over the last ten
seconds. Workers update the counts every five seconds. For the columns of the processes,
see lockstep processes --help. Press Ctrl-C to quit.

Examples:
  $ lockstep top
  $ lockstep top --interval 5
  $ lockstep top --once --json

Exit codes: 0 success, 1 failure, 2 wrong usage.`

interface TopFlags extends ConnectionOptions {
  readonly interval: number
  readonly once?: boolean
}

interface Frame {
  readonly stats: Stats
  readonly processes: readonly ProcessRow[]
  readonly rates: ReadonlyMap<string, number>
}

export function addTop(program: Command): void {
  const command = program
    .command('top')
    .description('watch queues and worker processes live')
    .option('--interval <seconds>', 'time between updates', interval, 1)
    .option('--once', 'print once and exit')
  withConnection(command).addHelpText('after', HELP).action(top)
}

async function top(flags: TopFlags): Promise<void> {
  const show = await screen(flags)
  const ended = new AbortController()
  const end = () => ended.abort()
  process.once('SIGINT', end)
  try {
    await connected(flags, ({ lockstep }) => watch(lockstep, flags, show, ended.signal))
  } finally {
    process.off('SIGINT', end)
  }
}

/** After the first result, waits for a database that restarts. */
async function watch(
  lockstep: Lockstep,
  { interval, once }: TopFlags,
  show: (frame: Frame | string) => void,
  signal: AbortSignal,
): Promise<void> {
  const rates = new Rates()
  let looked = false
  while (!signal.aborted) {
    try {
      const [stats, processes] = await Promise.all([lockstep.stats(), lockstep.processes()])
      show({ stats, processes, rates: rates.after(stats.queues, performance.now()) })
      looked = true
    } catch (error) {
      if (!looked) throw error
      show(`trying again: ${printable((error as Error).message)}`)
    }
    if (once) return
    await setTimeout(interval * 1000, undefined, { signal }).catch(() => {})
  }
}

async function screen({ json, once }: TopFlags): Promise<(frame: Frame | string) => void> {
  if (json) {
    return (frame) =>
      writeJson(
        typeof frame === 'string' ? { error: frame } : { ...frame, rates: Object.fromEntries(frame.rates) },
      )
  }
  const text = (frame: Frame | string) => (typeof frame === 'string' ? frame : draw(frame))
  // Some terminals don't report their height, and nothing would fit.
  if (once || !process.stdout.isTTY || !process.stdout.rows) return (frame) => write(text(frame))
  const { default: logUpdate } = await import('log-update')
  return (frame) => logUpdate(text(frame))
}

function draw({ stats, processes, rates }: Frame): string {
  const slots = processes.reduce((sum, process) => sum + process.slots, 0)
  const summary = [plural(processes.length, 'process', 'processes'), plural(slots, 'slot')]
  const head = `${new Date().toISOString().slice(0, 19).replace('T', ' ')} UTC  ${summary.join(', ')}`
  const parts = [head, statsTable(stats, rates)]
  if (processes.length > 0) parts.push(processTable(processes))
  return parts.join('\n')
}

function interval(text: string): number {
  const seconds = Number(text)
  if (seconds >= 0.1 && seconds <= 3600) return seconds
  throw new InvalidArgumentError('It must be 0.1 to 3600 seconds.')
}
