import { setTimeout as sleep } from 'node:timers/promises'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { fromModule } from '../../postgres/create-client.ts'
import type { ThreadConfig } from '../../postgres/thread-config.ts'
import {
  type ProcessInfo,
  type ProcessRequest,
  registerProcess,
  removeProcess,
  renewLeases,
} from '../../store/process.ts'
import { type ProcessReport, renewAndReport } from '../../store/process-report.ts'
import { type LeaseSession, sessionOpener } from './lease-session.ts'
import { LeaseState, warningBefore } from './lease-state.ts'
import { type SentError, sentError } from './sent-error.ts'
import { catchUp, monotonicMs } from './shared-clock.ts'

/** The data that the thread is started with. Times are in ms. */
export interface LeaseThreadData extends ThreadConfig {
  /** Leads to the main thread, if that is needed. */
  readonly port?: MessagePort | undefined
  readonly schema: string
  readonly info: ProcessInfo
  readonly lease: number
  /** Kill the process if handlers still run shortly before the end of a lease that could not be renewed. */
  readonly killAtEnd: boolean
  /** The memory of the shared LeaseState. */
  readonly numbers: Float64Array<SharedArrayBuffer>
  /** How many leases the process has had before. */
  readonly leases: number
}

/**
 * From the thread. `registered`: there is another membership, under the last of `leases` leases. `renewed`: the lease was
 * renewed, which took `duration` ms. `reconnected`: the connection is no longer the one that the membership began with.
 * `ending`: the lease will end. `unrenewed`: renewing it failed, for the first time in a row. `failed`: registering failed.
 * `reporting`: the lease will be renewed, and a report that comes soon goes with that. `unreported`: storing one failed, for the first time in a row. `requested`: someone asked for it while
 * the membership that it was asked of retired.
 */
export type LeaseMessage =
  | { readonly kind: 'registered'; readonly processId: number; readonly leases: number }
  | { readonly kind: 'renewed'; readonly processId: number; readonly duration: number }
  | { readonly kind: 'reconnected' | 'ending' | 'reporting' }
  | { readonly kind: 'requested'; readonly request: ProcessRequest }
  | ({ readonly kind: 'unrenewed' | 'unreported' | 'failed' } & SentError)

/**
 * To the thread. `register`: if it `joins`, handlers may run under the lease that runs, so the new membership comes under the
 * same lease or not at all; `now` is when it was sent, on the main thread's clock. `retire` removes the row of a process that
 * no round belongs to any more.
 */
export type LeaseCommand =
  | { readonly kind: 'register'; readonly joins: boolean; readonly now: number }
  | { readonly kind: 'retire'; readonly processId: number }
  | { readonly kind: 'report'; readonly report: ProcessReport }
  | { readonly kind: 'stop' }

const RENEWALS_PER_LEASE = 4
const RETRY_PAUSE = 250
/** ms before a renewal at which the main thread is asked for a report. If it is blocked, the lease is renewed without one. */
const REPORT_AHEAD = 100
/** ms, and no less than a lease: a session that renews nothing has been replaced, or its process has stalled. */
const IDLE_TIMEOUT = 60_000
/** ms that connecting or a statement may take at most, however long the lease is. */
const CALL_TIMEOUT = 10_000

const { config, needs, port: main, schema, info, lease, killAtEnd, numbers } = workerData as LeaseThreadData
const state = new LeaseState(numbers)
const port = parentPort!
const openSession = sessionOpener(fromModule(config, { direct: true }), needs, main)
const renewEvery = lease / RENEWALS_PER_LEASE
const SETTING = `SET idle_session_timeout = ${Math.max(IDLE_TIMEOUT, lease)}`

let { leases } = workerData as LeaseThreadData
let client: LeaseSession | undefined
let connecting: Promise<LeaseSession> | undefined
/** The last call in the session: the driver takes one at a time. */
let last: Promise<unknown> = Promise.resolve()
/** The rows to renew: one, or more while rounds of a former membership are still in progress. */
let identities: number[] = []
let timer: NodeJS.Timeout | undefined
let ending: NodeJS.Timeout | undefined
let killing: NodeJS.Timeout | undefined
let asking: NodeJS.Timeout | undefined
/** What the main thread has said of itself since the last renewal. */
let report: ProcessReport | undefined
let retired = Promise.resolve()
/** Whether storing a report has failed since the last one that was stored. */
let unreported = false
/** Whether a renewal has failed since the last one that succeeded. */
let failing = false

port.on('message', (command: LeaseCommand) => {
  if (command.kind === 'register') {
    catchUp(command.now)
    void register(command.joins)
  } else if (command.kind === 'retire') retired = retire(command.processId)
  else if (command.kind === 'report') report = command.report
  else void stop()
})

// The main thread will ask to register. If connecting fails now, that is reported then.
session(CALL_TIMEOUT).catch(() => {})

/** Opens one session, however many callers ask at once. */
async function session(timeout: number): Promise<LeaseSession> {
  if (client) return client
  connecting ??= open(timeout).finally(() => {
    connecting = undefined
  })
  return connecting
}

async function open(timeout: number): Promise<LeaseSession> {
  const limit = Math.min(timeout, CALL_TIMEOUT)
  const fresh = await openSession({ limit, setting: SETTING })
  fresh.onLost(() => drop(fresh))
  client = fresh
  last = Promise.resolve()
  if (identities.length > 0) port.postMessage({ kind: 'reconnected' } satisfies LeaseMessage)
  return fresh
}

/** Makes a call when those before it were answered. */
function inTurn<T>(call: () => Promise<T>): Promise<T> {
  const answer = last.then(call)
  last = answer.catch(() => {})
  return answer
}

/** A connection that failed once is not used again: it may be half-open. */
function drop(broken: LeaseSession | undefined): void {
  if (broken === undefined || client !== broken) return
  client = undefined
  void broken.close()
}

async function register(joins: boolean): Promise<void> {
  // Handlers of a lease that has ended are killed unless we know that none is left.
  if (!joins) clearTimeout(killing)
  try {
    // Renewals share the connection, and can't wait long.
    const on = await session(joins ? renewEvery : CALL_TIMEOUT)
    const askedAt = monotonicMs()
    const processId = await inTurn(() => registerProcess(on, schema, info, lease))
    if (joins && identities.length === 0) {
      retired = retire(processId)
      return tell('failed', new Error('the lease ended meanwhile'))
    }
    identities.push(processId)
    if (identities.length === 1) {
      // No handler of the lease before is left, which may have ended only after we were asked to register.
      clearTimeout(killing)
      leases += 1
      renewed(askedAt)
    }
    port.postMessage({ kind: 'registered', processId, leases } satisfies LeaseMessage)
  } catch (error) {
    drop(client)
    tell('failed', error)
  }
}

function tell(kind: 'unrenewed' | 'unreported' | 'failed', error: unknown): void {
  port.postMessage({ kind, ...sentError(error) } satisfies LeaseMessage)
}

async function retire(processId: number): Promise<void> {
  identities = identities.filter((membership) => membership !== processId)
  try {
    const on = await session(renewEvery)
    const request = await inTurn(() => removeProcess(on, schema, processId))
    if (request) port.postMessage({ kind: 'requested', request } satisfies LeaseMessage)
  } catch {
    // The lease of that process ends by itself.
    drop(client)
  }
}

/** The lease counts from before the renewal was sent. So it ends here before it ends for any process that watches it. */
function renewed(askedAt: number): void {
  state.setDeadline(leases, askedAt + lease)
  failing = false
  clearTimeout(ending)
  ending = setTimeout(end, Math.max(0, askedAt + lease - warningBefore(lease) - monotonicMs()))
  renewIn(renewEvery)
  askForReport()
}

function askForReport(): void {
  clearTimeout(asking)
  const ask = () => {
    // A late answer to the question before says what was, and would be stored as what is.
    report = undefined
    port.postMessage({ kind: 'reporting' } satisfies LeaseMessage)
  }
  asking = setTimeout(ask, Math.max(0, renewEvery - REPORT_AHEAD))
}

function renewIn(pause: number): void {
  clearTimeout(timer)
  timer = setTimeout(renew, pause)
}

async function renew(): Promise<void> {
  const askedAt = monotonicMs()
  const renewing = [...identities]
  if (renewing.length === 0) return
  try {
    const on = await session(renewEvery)
    const alive = await Promise.race([inTurn(() => renewNow(on, renewing)), late()])
    const expected = renewing.filter((membership) => identities.includes(membership))
    if (!expected.every((membership) => alive.includes(membership))) return end()
    // While the answer was under way, another one joined, or some retired: the lease is that of all that are left.
    if (expected.length < identities.length) return renewIn(0)
    // It ended, or all retired.
    if (expected.length === 0) return
    renewed(askedAt)
    const processId = Math.max(...expected)
    port.postMessage({ kind: 'renewed', processId, duration: monotonicMs() - askedAt } satisfies LeaseMessage)
  } catch (error) {
    drop(client)
    if (!failing) tell('unrenewed', error)
    failing = true
    renewIn(Math.min(RETRY_PAUSE, renewEvery))
  }
}

/**
 * With a report, if the main thread has sent one since the last time. What keeps a report from being stored must not keep the
 * lease from being renewed: then it is renewed without.
 */
async function renewNow(on: LeaseSession, renewing: readonly number[]): Promise<number[]> {
  const told = report
  report = undefined
  if (told === undefined) return renewLeases(on, schema, renewing, lease)
  try {
    const alive = await renewAndReport(on, schema, renewing, lease, told)
    unreported = false
    return alive
  } catch (error) {
    const alive = await renewLeases(on, schema, renewing, lease)
    if (!unreported) tell('unreported', error)
    unreported = true
    return alive
  }
}

/** Rejects when a renewal takes too long: it is tried again on a connection that may be better. */
async function late(): Promise<never> {
  await sleep(renewEvery, undefined, { ref: false })
  throw new Error('no answer')
}

/**
 * The lease will end: stops renewing it. If handlers run on in spite of their signals, the process is killed before the
 * end, if that is asked for.
 */
function end(): void {
  if (identities.length === 0) return
  identities = []
  for (const pending of [timer, ending, asking]) clearTimeout(pending)
  port.postMessage({ kind: 'ending' } satisfies LeaseMessage)
  if (killAtEnd) killing = state.killBeforeEnd(leases, lease)
}

async function stop(): Promise<void> {
  identities = []
  for (const pending of [timer, ending, killing, asking]) clearTimeout(pending)
  await retired
  if (client) await client.close()
  // Ends only this thread, whatever is still under way: a half-open connection never closes.
  process.exit()
}
