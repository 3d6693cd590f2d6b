import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { healthListener } from '../../src/index.ts'
import { block, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('R15 health follows a worker from before its start until it has stopped', async () => {
  const gate = new Gate()
  const queue = env.queue({ perform: () => gate.opened })
  const worker = env.create({ queues: [queue], shutdownTimeout: 60_000 })
  expect(worker.health()).toMatchObject({ state: 'new', live: true, ready: false, started: false })
  const starting = worker.start()
  expect(worker.health()).toMatchObject({ state: 'starting', live: true, ready: false, started: false })
  await starting
  const { leaseLeft, eventLoopDelay, ...health } = worker.health()
  expect(health).toMatchObject({ state: 'running', live: true, ready: true, started: true, reasons: [] })
  expect(health).toMatchObject({ database: true, working: 0, processId: worker.processId })
  expect(leaseLeft).toBeGreaterThan(2_000)
  expect(leaseLeft).toBeLessThanOrEqual(10_000)
  await eventually(() => expect(worker.health().wakeUps).toBe(true))

  const begun = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await begun
  const stopping = worker.stop()
  expect(worker.health()).toMatchObject({ state: 'stopping', live: true, ready: false, started: true })
  expect(worker.health()).toMatchObject({ working: 1, reasons: ['it is stopping'] })
  gate.open()
  await stopping
  expect(worker.health()).toMatchObject({ state: 'stopped', live: true, ready: false, started: true })
})

test('R15 a quiet worker is not ready, and one that can’t start has not started', async () => {
  const worker = await env.work({ queues: [env.queue({ perform() {} })] })
  await worker.quiet()
  expect(worker.health()).toMatchObject({ state: 'quiet', live: true, ready: false, started: true })
  const { network, lockstep } = await env.distant()
  network.cut()
  const distant = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
  await expect(distant.start()).rejects.toThrow()
  expect(distant.health()).toMatchObject({ state: 'stopped', ready: false, started: false })
  const unstarted = env.create({ queues: [env.queue({ perform() {} })] })
  await unstarted.stop()
  expect(unstarted.health()).toMatchObject({ state: 'stopped', ready: false, started: false })
})

test.each(['cut', 'silence'] as const)(
  'a worker is live but not ready while its network has a %s, and ready again afterwards',
  async (weather) => {
    const { network, lockstep } = await env.distant()
    const worker = env.create({ queues: [env.queue({ perform() {} })], lease: 2_000 }, lockstep)
    await worker.start()
    expect(worker.health().ready).toBe(true)
    network[weather]()
    await eventually(() => {
      const { live, ready, started, reasons } = worker.health()
      expect({ live, ready, started }).toEqual({ live: true, ready: false, started: true })
      expect(reasons).toContain('its lease could not be renewed')
    })
    await eventually(() => expect(worker.health().reasons).toContain('the database does not answer'))
    network.restore()
    await eventually(() => expect(worker.health()).toMatchObject({ ready: true, reasons: [] }), 40_000)
  },
  90_000,
)

test('the delay of the event loop is that of the longest block in the last seconds', async () => {
  const worker = await env.work({ queues: [env.queue({ perform() {} })] })
  expect(worker.health().eventLoopDelay).toBeLessThan(5_000)
  block(1_000)
  expect(worker.health().eventLoopDelay).toBeGreaterThanOrEqual(700)
  await worker.stop()
  expect(worker.health().live).toBe(true)
})

test('a server of the application answers probes', async () => {
  const worker = env.create({ queues: [env.queue({ perform() {} })] })
  const server = createServer(healthListener(worker))
  env.later(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const probe = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
  expect((await probe('/startupz')).status).toBe(503)
  await worker.start()
  expect((await probe('/startupz')).status).toBe(200)
  const ready = await probe('/readyz')
  expect(ready.status).toBe(200)
  expect(await ready.json()).toMatchObject({ state: 'running', ready: true })
  expect((await probe('/')).status).toBe(404)
})
