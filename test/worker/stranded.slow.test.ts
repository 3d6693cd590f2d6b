import { expect, test } from 'vitest'
import { backends } from '../support/backends.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('the sessions of a worker’s own connections that go silent end by themselves', async () => {
  const { network, lockstep } = await env.distant()
  const worker = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
  await worker.start()
  const kinds = ['lock', 'lease', 'listen'] as const
  const own = (await Promise.all(kinds.map((kind) => backends(env, kind)))).flat()
  expect(own).toHaveLength(3)
  network.strand()
  const left = () => env.sql('SELECT query FROM pg_stat_activity WHERE pid = ANY ($1)', [own])
  await eventually(async () => expect(await left()).toEqual([]), 100_000)
  expect(await worker.stop()).toBe(true)
}, 150_000)
