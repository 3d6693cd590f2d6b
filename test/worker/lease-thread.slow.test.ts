import { once } from 'node:events'
import { expect, test } from 'vitest'
import { connectionConfig } from '../../src/postgres/connection.ts'
import { Lease } from '../../src/worker/membership/lease.ts'
import { LeaseState } from '../../src/worker/membership/lease-state.ts'
import type { LeaseCommand, LeaseMessage, LeaseThreadData } from '../../src/worker/membership/lease-thread.ts'
import { monotonicMs } from '../../src/worker/membership/shared-clock.ts'
import { startThread } from '../../src/worker/membership/start-thread.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
/**
 * Each renewal that waits is given up after a quarter of this, and tried again 250 ms later. So the third begins half a
 * second before the end, and still waits at it: time enough on a slow machine too.
 */
const LEASE = 20_000

/** The thread alone, with a lease of so many ms. */
function start(lease: number) {
  const state = new LeaseState()
  const thread = startThread('lease-thread', {
    config: connectionConfig(env.connectionString, 'lease'),
    needs: 'nothing',
    schema: 'lockstep',
    info: { host: 'here', pid: process.pid, version: '0', slots: 1, queues: [] },
    lease,
    killAtEnd: false,
    numbers: state.numbers,
    leases: 0,
  } satisfies LeaseThreadData)
  env.later(() => thread.terminate())
  const messages: LeaseMessage[] = []
  // Renewals come without reports here.
  thread.on('message', (message) => message.kind === 'reporting' || messages.push(message))
  const register = (joins: boolean, now = monotonicMs()) =>
    thread.postMessage({ kind: 'register', joins, now } satisfies LeaseCommand)
  const retire = (processId: number) =>
    thread.postMessage({ kind: 'retire', processId } satisfies LeaseCommand)
  /** The next one. */
  const message = async (): Promise<LeaseMessage> => {
    while (messages.length === 0) await once(thread, 'message')
    return messages.shift()!
  }
  return { state, register, retire, message }
}

// As if a process was stopped for longer than its lease: its timers and the server's answer come all at once. The main
// thread reads the deadline before it hears that the lease has ended.
test('P1: a renewal whose answer comes after the end of the lease does not lengthen it', async () => {
  const { state, register, message } = start(LEASE)
  register(false)
  const registered = await message()
  expect(registered).toMatchObject({ kind: 'registered', leases: 1 })
  const deadline = () => state.deadlineOf(1)

  // The session that removes the process holds its row, so renewals wait.
  const remover = await env.session()
  await remover.query('BEGIN; DELETE FROM lockstep.processes')
  let told = await message()
  for (; told.kind !== 'ending'; told = await message());
  const ended = deadline()
  const waiting = () =>
    env.sql(`SELECT FROM pg_stat_activity WHERE application_name = 'lease' AND wait_event_type = 'Lock'`)
  expect((await waiting()).length).toBeGreaterThan(0)
  await remover.query('COMMIT')
  await eventually(async () => expect(await waiting()).toEqual([]))
  // The answer to the renewal is not reported. But a question sent after the renewal is answered after it.
  // Handlers of the old lease may run, so there is no other one yet.
  register(true)
  expect(await message()).toMatchObject({ kind: 'failed', message: 'the lease ended meanwhile' })
  expect(deadline()).toBe(ended)
  await eventually(async () => expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([]))
  register(false)
  expect(await message()).toMatchObject({ kind: 'registered', leases: 2 })
  expect(deadline()).toBe(ended)
}, 60_000)

test('P1: a renewal that was sent before a membership joined does not lengthen the lease for it', async () => {
  await env.sql(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_sleep(2.2); RETURN NEW; END $$`)
  const { state, register, message } = start(8_000)
  register(false)
  const first = await message()
  await env.sql(
    'CREATE TRIGGER dawdle BEFORE INSERT ON lockstep.processes FOR EACH ROW EXECUTE FUNCTION dawdle()',
  )
  env.later(() => env.sql('DROP FUNCTION dawdle CASCADE'))
  const deadline = state.deadlineOf(1)
  // The renewal of the first one waits behind this on their connection.
  register(true)
  const second = await message()
  expect([first, second]).toMatchObject([{ kind: 'registered' }, { kind: 'registered' }])
  const { processId } = second as { readonly processId: number }
  expect(await message()).toMatchObject({ kind: 'renewed', processId })
  expect(state.deadlineOf(1)).toBeGreaterThan(deadline)
}, 30_000)

test('R15 what was asked of a membership that retires is told', async () => {
  const { register, retire, message } = start(LEASE)
  register(false)
  const former = await message()
  register(true)
  expect(await message()).toMatchObject({ kind: 'registered', leases: 1 })
  const { processId } = former as { processId: number }
  await env.sql(`UPDATE lockstep.processes SET request = 'stop' WHERE process_id = $1`, [processId])
  retire(processId)
  expect(await message()).toEqual({ kind: 'requested', request: 'stop' })
})

test('P6: a lease holds nothing of the one before, once the process has registered anew', async () => {
  let ended!: () => void
  const ending = new Promise<void>((resolve) => {
    ended = resolve
  })
  const lease = new Lease({
    config: connectionConfig(env.connectionString, 'lease'),
    schema: 'lockstep',
    info: { host: 'here', pid: process.pid, version: '0', slots: 1, queues: [] },
    lease: 1_000,
    killAtEnd: false,
    onEnding: ended,
    onReconnected() {},
    onRenewed() {},
    onRequest() {},
    report: () => ({ eventLoopDelay: 0, memory: 0, shards: [], doing: [] }),
    onUnrenewed() {},
    onUnreported() {},
    onFailure() {},
  })
  env.later(() => lease.stop())
  await lease.register(false)
  const first = lease.processId
  expect(lease.holds(first)).toBe(true)
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  await ending
  expect(lease.holds(first)).toBe(false)
  await blocker.query('COMMIT')
  // A renewal that waited may take their connection along.
  await eventually(() => lease.register(false))
  expect(lease.processId).toBeGreaterThan(first)
  expect([lease.holds(first), lease.holds(lease.processId)]).toEqual([false, true])
})

// In Bun and Deno a thread's clock starts with the thread, so it is behind by what the process has run before.
test('P1: a lease counts by the clock of the main thread, and ends no later than that has it', async () => {
  const { state, register, message } = start(LEASE)
  const behind = 3_600_000
  register(false, monotonicMs() + behind)
  expect(await message()).toMatchObject({ kind: 'registered' })
  const deadline = state.deadlineOf(1) - behind
  expect(deadline).toBeGreaterThan(monotonicMs())
  expect(deadline).toBeLessThanOrEqual(monotonicMs() + LEASE)
})

test('a main thread whose clock is behind sets no clock back', async () => {
  const { state, register, message } = start(LEASE)
  register(false, monotonicMs() - 3_600_000)
  expect(await message()).toMatchObject({ kind: 'registered' })
  expect(state.deadlineOf(1)).toBeGreaterThan(monotonicMs())
})
