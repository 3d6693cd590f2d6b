import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { eventually, next } from '../support/worker-environment.ts'
import { useRoles } from './role-environment.ts'

const env = useRoles()

test('the owner sees and steers worker processes, a viewer only sees them, others do neither', async () => {
  const queue = defineQueue('steered', { perform() {} })
  const worker = env.lockstep('worker').createWorker({ queues: [queue], lease: 1_000 })
  env.later(() => worker.stop())
  await worker.start()
  const { processId } = worker
  await eventually(async () =>
    expect(await env.lockstep('viewer').processes()).toMatchObject([
      { processId, request: null, shards: [{ queue: 'steered', count: 16 }] },
    ]),
  )
  for (const name of ['viewer', 'producer', 'worker', 'both', 'stranger'])
    for (const deed of ['quiet', 'stop'] as const)
      await expect(env.lockstep(name)[deed](processId)).rejects.toMatchObject({ code: 'LOCKSTEP_PERMISSION' })
  for (const name of ['producer', 'stranger'])
    await expect(env.lockstep(name).processes()).rejects.toMatchObject({ code: 'LOCKSTEP_PERMISSION' })
  const requested = next(worker, 'requested')
  await env.lockstep('owner').stop(processId)
  expect(await requested).toEqual({ request: 'stop' })
})
