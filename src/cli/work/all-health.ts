import type { ChildProcess } from 'node:child_process'
import type { Verdicts } from '../../health.ts'
import type { Health } from '../../index.ts'

/** ms that a process may take to say how it is. */
const PATIENCE = 1_500

/**
 * From a child. `ready`: it works. `dismissed`: someone asked it to stop, and it will. `health`: the answer to a question.
 */
export type FromChild =
  | { readonly kind: 'ready' | 'dismissed' }
  | { readonly kind: 'health'; readonly number: number; readonly health: Health }

/** To a child: asks how it is. */
export interface HealthQuestion {
  readonly kind: 'health'
  readonly number: number
}

export interface Supervised {
  readonly child: ChildProcess
  /** It worked. */
  readonly ready: boolean
}

/** How one process is. `index`: its place, from 0. */
export interface OneHealth extends Verdicts {
  readonly index: number
  readonly pid: number | undefined
}

/** How all are: live if all are, and so on. */
export interface AllHealth extends Verdicts {
  readonly processes: readonly OneHealth[]
}

/** `expected`: the places of all processes that should run. Those that are missing will be started again. */
export async function healthOfAll(
  expected: readonly number[],
  running: ReadonlyMap<number, Supervised>,
  stopping: boolean,
): Promise<AllHealth> {
  const processes = await Promise.all(expected.map((index) => healthOf(index, running.get(index))))
  const named = processes.flatMap(({ index, pid, reasons }) =>
    reasons.map((reason) => `process ${index}${pid === undefined ? '' : ` (pid ${pid})`}: ${reason}`),
  )
  const isNone = processes.length === 0
  return {
    live: processes.every(({ live }) => live),
    ready: !stopping && !isNone && processes.every(({ ready }) => ready),
    started: stopping || processes.every(({ started }) => started),
    reasons: stopping ? ['it is stopping', ...named] : named,
    processes,
  }
}

/** One that ends before it has started is started again, so the parent does not count as dead. */
async function healthOf(index: number, supervised: Supervised | undefined): Promise<OneHealth> {
  const waiting = { index, pid: supervised?.child.pid, live: true, ready: false, started: false }
  if (!supervised) return { ...waiting, reasons: ['it has ended, and is started again'] }
  if (!supervised.ready) return { ...waiting, reasons: ['it is starting'] }
  const health = await ask(supervised.child)
  if (!health) return { ...waiting, live: false, started: true, reasons: [`no answer within ${PATIENCE} ms`] }
  return { index, pid: supervised.child.pid, ...health }
}

let questions = 0
const underWay = new WeakMap<ChildProcess, Promise<Health | undefined>>()

/** Probes that come together share an answer. Undefined if it does not answer in time, or has just ended. */
function ask(child: ChildProcess): Promise<Health | undefined> {
  const asked = underWay.get(child) ?? askAlone(child).finally(() => underWay.delete(child))
  underWay.set(child, asked)
  return asked
}

function askAlone(child: ChildProcess): Promise<Health | undefined> {
  questions += 1
  const number = questions
  return new Promise((resolve) => {
    const end = (health?: Health) => {
      clearTimeout(timer)
      child.off('message', hear)
      resolve(health)
    }
    const hear = (message: FromChild) => {
      if (message.kind === 'health' && message.number === number) end(message.health)
    }
    const timer = setTimeout(() => end(), PATIENCE)
    child.on('message', hear)
    child.send({ kind: 'health', number } satisfies HealthQuestion, (error) => error && end())
  })
}
