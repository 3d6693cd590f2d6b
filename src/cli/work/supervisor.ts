import { type ChildProcess, fork } from 'node:child_process'
import { constants } from 'node:os'
import type { Logger } from '../../index.ts'
import { EXIT } from '../exit.ts'
import { type AllHealth, type FromChild, healthOfAll, type Supervised } from './all-health.ts'
import type { Rank } from './flags.ts'
import { type HealthAddress, serveHealth } from './health-server.ts'

const FIRST_PAUSE = 250
const LONGEST_PAUSE = 30_000
/** ms after which a child counts as healthy, which resets the pause. */
const HEALTHY_AFTER = 60_000
const RANK = 'LOCKSTEP_RANK'
/** Where a child reports that it kills itself: the parent can't tell its SIGKILL from one by the system. */
export const SUPERVISOR = { fd: 4, json: true } as const
const FORWARDED = ['SIGTERM', 'SIGINT', 'SIGTSTP', 'SIGTTIN'] as const

/** The rank of this child among its siblings; undefined in a process without a supervisor. */
export function supervisedAs(): Rank | undefined {
  const [index, of] = (process.env[RANK] ?? '').split('/').map(Number)
  // A handler may start its own lockstep process, which has no supervisor.
  delete process.env[RANK]
  return process.send && index !== undefined && of ? { index, of } : undefined
}

/** In a child: stops it when its parent is gone, even before it has started. */
export function followParent(): void {
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  // The channel must not keep alive a module that never finishes loading: it ends as in a single process.
  process.channel?.unref()
  if (!process.connected) process.kill(process.pid, 'SIGTERM')
}

/** In a child: reports that it works, once it has started and before its first handler. */
export function reportReady(): void {
  if (process.connected) process.send!({ kind: 'ready' } satisfies FromChild)
}

export interface SupervisorOptions {
  readonly processes: number
  /** A child that exits with 0 has drained its queues, and is not restarted. */
  readonly drain: boolean
  /** Where to answer probes, if it is to. */
  readonly health: HealthAddress | undefined
  readonly logger: Logger
}

/** Runs this command line in several processes and restarts those that end; resolves to the exit code. */
export async function supervise({ health, ...options }: SupervisorOptions): Promise<number> {
  const supervisor = new Supervisor(options)
  if (health) await serveHealth(health, () => supervisor.health(), options.logger)
  return supervisor.run()
}

/** How a child ended. */
interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** It reported that it kills itself. */
  readonly byItself: boolean
  /** It worked. A child that is still starting does not handle signals yet, so the first one ends it. */
  readonly ready: boolean
  /** Someone asked it to stop, and wants no other in its place. */
  readonly dismissed: boolean
}

class Supervisor {
  readonly #count: number
  readonly #drain: boolean
  readonly #logger: Logger
  readonly #children = new Map<number, Supervised>()
  readonly #restarts = new Map<number, NodeJS.Timeout>()
  readonly #pauses = new Map<number, number>()
  #everReady = false
  #stopping = false
  #exitCode: number = EXIT.ok
  #end: (exitCode: number) => void = () => {}

  constructor({ processes, drain, logger }: Omit<SupervisorOptions, 'health'>) {
    this.#count = processes
    this.#drain = drain
    this.#logger = logger
  }

  run(): Promise<number> {
    for (const signal of FORWARDED)
      if (signal in constants.signals) process.on(signal, () => this.#forward(signal))
    for (let index = 0; index < this.#count; index += 1) this.#start(index)
    return new Promise((resolve) => {
      this.#end = resolve
    })
  }

  health(): Promise<AllHealth> {
    const expected = [...this.#restarts.keys(), ...this.#children.keys()].sort((a, b) => a - b)
    return healthOfAll(expected, this.#children, this.#stopping)
  }

  /** In its own session: else Ctrl-C would reach it directly too, and a second signal ends it at once. */
  #start(index: number): void {
    this.#restarts.delete(index)
    const child = fork(process.argv[1]!, process.argv.slice(2), {
      detached: true,
      env: { ...process.env, [RANK]: `${index}/${this.#count}` },
      stdio: ['inherit', 'inherit', 'inherit', 'ipc', 'pipe'],
    })
    const started = performance.now()
    let byItself = false
    let dismissed = false
    const one = { child, ready: false }
    child.stdio[SUPERVISOR.fd]!.on('error', () => {}).on('data', () => {
      byItself = true
    })
    this.#children.set(index, one)
    child.on('message', ({ kind }: FromChild) => {
      if (kind === 'dismissed') dismissed = true
      if (kind !== 'ready' || one.ready) return
      one.ready = true
      this.#everReady = true
      this.#logger.info({ event: 'child', index, child: child.pid }, `process ${child.pid} works`)
    })
    child.once('exit', (code, signal) => {
      if (performance.now() - started > HEALTHY_AFTER) this.#pauses.delete(index)
      this.#ended(index, child, { code, signal, byItself, ready: one.ready, dismissed })
    })
  }

  #ended(index: number, child: ChildProcess, ending: Ending): void {
    const { code, signal, ready, dismissed } = ending
    this.#children.delete(index)
    const notBegun = this.#stopping && !ready && (signal === 'SIGTERM' || signal === 'SIGINT')
    const well = (code === EXIT.ok && signal === null) || notBegun
    if (!well && (this.#stopping || !this.#everReady))
      this.#exitCode = Math.max(this.#exitCode, code ?? EXIT.failed)
    // The other processes of this release are outdated too; the next release must replace them.
    if (code === EXIT.outdated) {
      this.#exitCode = EXIT.outdated
      if (!this.#stopping) this.#forward('SIGTERM')
    }
    // If no child has ever started, that is a mistake to report; a restart would not help.
    if (!well && !this.#everReady && !this.#stopping) this.#forward('SIGTERM')
    const isWanted = !this.#stopping && !dismissed && !(well && this.#drain)
    if (isWanted) this.#restart(index, child, ending)
    else if (!well) this.#tell(index, child, ending)
    if (this.#children.size === 0 && this.#restarts.size === 0) this.#end(this.#exitCode)
  }

  #restart(index: number, child: ChildProcess, ending: Ending): void {
    const pause = this.#pauses.get(index) ?? FIRST_PAUSE
    this.#pauses.set(index, Math.min(pause * 2, LONGEST_PAUSE))
    this.#tell(index, child, ending, pause)
    this.#restarts.set(
      index,
      setTimeout(() => this.#start(index), pause),
    )
  }

  #tell(index: number, { pid }: ChildProcess, { code, signal, byItself }: Ending, pause?: number): void {
    const bySignal = byItself
      ? 'killed itself, since its lease ended while jobs were in work'
      : `was killed by ${signal}`
    const how = signal ? bySignal : `ended with ${code}`
    const next = pause === undefined ? '' : `: starting another in ${pause} ms`
    this.#logger.error(
      { event: 'child', index, child: pid, code, signal, byItself, pause },
      `process ${pid} ${how}${next}`,
    )
  }

  #forward(signal: (typeof FORWARDED)[number]): void {
    const children = [...this.#children.values()].map(({ child }) => child)
    this.#logger.info(
      { event: 'signal', signal, children: children.map(({ pid }) => pid) },
      `${signal} to all`,
    )
    for (const child of children) send(child, signal)
    if (signal !== 'SIGTERM' && signal !== 'SIGINT') return
    this.#stopping = true
    for (const timer of this.#restarts.values()) clearTimeout(timer)
    this.#restarts.clear()
    if (this.#children.size === 0) this.#end(this.#exitCode)
  }
}

/** Not by `child.kill`: in Deno that also closes the channel, at which the child stops a second time, and so at once. */
function send({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, signal)
  } catch (error) {
    // It has just ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
