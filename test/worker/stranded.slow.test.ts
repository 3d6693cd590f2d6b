import { expect, test } from 'vitest'
import { backends } from '../support/backends.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('sessions that went silent and hold nothing end by themselves while a round of the worker goes on', async () => {
  const { network, lockstep } = await env.distant()
  const gate = new Gate()
  env.later(() => gate.open())
  const long = env.queue({ shards: 1, perform: () => gate.opened })
  const worker = env.create({ queues: [long, env.queue({ perform() {} })] }, lockstep)
  await worker.start()
  const { processId } = worker
  const started = next(worker, 'started')
  await env.lockstep.enqueue(long, { id: 'long' })
  await started
  const kinds = ['lock', 'lease', 'listen'] as const
  const direct = (await Promise.all(kinds.map((kind) => backends(env, kind)))).flat()
  expect(direct).toHaveLength(3)
  network.strand()
  const left = () => env.sql('SELECT query FROM pg_stat_activity WHERE pid = ANY ($1)', [direct])
  await eventually(async () => expect(await left()).toEqual([]), 100_000)
  // The former registration stays for as long as the round runs, so no other process has ended its session.
  const rows = await env.sql('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])
  expect(rows).toHaveLength(1)
}, 150_000)
