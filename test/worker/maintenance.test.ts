import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { Instruments } from '../../src/instruments.ts'
import { Database } from '../../src/postgres/database.ts'
import type { Comparison } from '../../src/store/comparison.ts'
import { Bell } from '../../src/worker/lifecycle/bell.ts'
import { Maintainer } from '../../src/worker/maintenance/maintainer.ts'
import type { Maintenance } from '../../src/worker/maintenance/maintenance.ts'
import { Sweeping } from '../../src/worker/maintenance/sweeping.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const SEEN = {} as Comparison

function maintainerOf(...all: Maintenance[]): { maintainer: Maintainer; failures: unknown[] } {
  const failures: unknown[] = []
  const database = new Database(env.pool, 'lockstep')
  const onFailure = (error: unknown) => void failures.push(error)
  const { logger } = env
  const instruments = new Instruments([], logger)
  return { maintainer: new Maintainer({ database, logger, instruments, all, onFailure }), failures }
}

/** Maintenance that goes on until the gate rings. */
function held() {
  const [begun, gate] = [new Bell(), new Bell()]
  const slow: Maintenance = {
    name: 'slow',
    every: 1,
    async run() {
      begun.ring()
      await gate.wait()
      return undefined
    },
  }
  return { slow, slowBegins: begun.wait(), gate }
}

test('of all processes one at a time does the same', async () => {
  let [running, most, runs] = [0, 0, 0]
  const one = (): Maintenance => ({
    name: 'one',
    every: 1,
    async run() {
      running += 1
      runs += 1
      most = Math.max(most, running)
      await env.pool.query('SELECT pg_sleep(0.02)')
      running -= 1
      return undefined
    },
  })
  const all = Array.from({ length: 3 }, () => maintainerOf(one()).maintainer)
  for (const maintainer of all) await maintainer.start()
  await eventually(() => expect(runs).toBeGreaterThan(10))
  for (const maintainer of all) await maintainer.stop()
  expect(most).toBe(1)
})

test('another kind goes on meanwhile, in another process', async () => {
  const { slow, slowBegins, gate } = held()
  const quick: Maintenance = { name: 'quick', every: 1, run: vi.fn(async () => undefined) }
  const [first, second] = [maintainerOf(slow).maintainer, maintainerOf(quick).maintainer]
  await first.start()
  await slowBegins
  await second.start()
  await eventually(() => expect(quick.run).toHaveBeenCalled())
  gate.ring()
  await first.stop()
  await second.stop()
})

test('what comparisons show is dealt with while another kind takes its time, in the same process', async () => {
  const { slow, slowBegins, gate } = held()
  const shown: Maintenance = { name: 'shown', every: 1, see() {}, run: vi.fn(async () => undefined) }
  const { maintainer } = maintainerOf(slow, shown)
  await maintainer.start()
  await slowBegins
  const before = vi.mocked(shown.run).mock.calls.length
  await eventually(() => expect(vi.mocked(shown.run).mock.calls.length).toBeGreaterThan(before + 1))
  gate.ring()
  await maintainer.stop()
})

test('what fails is told, logged once in a row, and done again', async () => {
  let runs = 0
  const failing: Maintenance = {
    name: 'failing',
    every: 1,
    async run() {
      runs += 1
      if (runs === 3) return { runs }
      throw new Error(`run ${runs}`)
    },
  }
  const { maintainer, failures } = maintainerOf(failing)
  const warn = vi.spyOn(env.logger, 'warn')
  await maintainer.start()
  await eventually(() => expect(runs).toBeGreaterThan(5))
  await maintainer.stop()
  expect(failures).toMatchObject([{ message: 'run 1' }, { message: 'run 2' }, ...failures.slice(2)])
  const told = warn.mock.calls.filter(([, message]) => message === 'maintenance failed')
  expect(told.map(([fields]) => fields)).toMatchObject([{ error: 'run 1' }, { error: 'run 4' }])
})

test('what waits for a comparison asks the server for nothing until one has shown something to do', async () => {
  let due = false
  const watching: Maintenance = {
    name: 'watching',
    every: 1,
    see() {
      due = true
    },
    isDue: () => due,
    nextSight: () => 250,
    run: vi.fn(async () => {
      due = false
      return undefined
    }),
  }
  const { maintainer } = maintainerOf(watching, { name: 'other', every: 86_400_000, run: vi.fn() })
  const transaction = vi.spyOn(Database.prototype, 'transaction')
  await maintainer.start()
  expect(maintainer.nextSight).toBe(250)
  maintainer.see(SEEN, 0)
  await eventually(() => expect(watching.run).toHaveBeenCalledOnce())
  await maintainer.stop()
  expect(transaction).toHaveBeenCalledOnce()
  transaction.mockRestore()
})

test('P8: silent processes that could not be removed are still due', async () => {
  const hooks = { onGone() {}, onRemoved() {} }
  const sweeping = new Sweeping({ logger: env.logger, rebalanceInterval: 500, ...hooks })
  const sight = { processId: 1_234_567, queues: [], quiet: false, renewal: randomUUID(), lease: 500 }
  const seen = { processes: [{ ...sight, connected: false, overdue: true }] } as unknown as Comparison
  sweeping.see(seen, 0)
  expect(sweeping.isDue()).toBe(false)
  sweeping.see(seen, 500)
  await expect(sweeping.run(new Database(env.pool, 'nowhere'))).rejects.toThrow()
  expect(sweeping.isDue()).toBe(true)
  // Another process has removed it meanwhile.
  expect(await sweeping.run(new Database(env.pool, 'lockstep'))).toBeUndefined()
  expect(sweeping.isDue()).toBe(false)
})
