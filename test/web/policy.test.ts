import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('a queue’s page shows its policy, of each process if they differ', async () => {
  const older = env.queue({ batchSize: 10, timeout: 90_000, retryIn: () => 1, perform() {} })
  const newer = defineQueue(older.name, { batchSize: 20, perform() {} })
  const page = async () => {
    // A new one has kept nothing from its last look.
    const { fetch } = lockstepWeb(env.lockstep, { access: 'open' })
    const answer = await fetch(new Request(`http://localhost/queues/${older.name}`))
    return (await answer.text()).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
  }

  expect(await env.work({ queues: [older], lease: 1_000 })).toBeDefined()
  await eventually(async () =>
    expect(await page()).toContain(
      'Policy batchSize 10 timeout 1 min 30 s retryIn the definition’s own Other options have their defaults.',
    ),
  )
  const second = await env.work({ queues: [newer], lease: 1_000 })
  await eventually(async () =>
    expect(await page()).toMatch(new RegExp(`Process ${second.processId} batchSize 20 Other`)),
  )
  expect(await page()).toContain('batchSize 10')
})
