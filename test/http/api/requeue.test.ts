import { expect, onTestFinished, test } from 'vitest'
import { below, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

test('P7: a requeue does what no open transaction holds, and says that the rest is locked', {
  tags: 'slow',
  timeout: 30_000,
}, async () => {
  const { post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), { jobs: [{ id: 'a' }, { id: 'b' }, { id: 'c' }] })
  await env.lockstep.kill(queue, {})
  const producer = await env.pool.connect()
  onTestFinished(() => producer.release(true))
  await producer.query('BEGIN')
  await producer.query("SELECT lockstep.enqueue($1, 'b', '1')", [queue])

  const lines = (await post(below(queue, '/dead/requeue'), { all: true })).text.trim().split('\n')
  const steps = lines.map((line) => JSON.parse(line))
  expect(steps.slice(-2)).toMatchObject([
    { done: 2, total: 3 },
    { error: { status: 409, code: 'LOCKSTEP_LOCKED', detail: expect.stringContaining('the rest is done') } },
  ])
  expect((await env.lockstep.findDead(queue)).items.map(({ id }) => id)).toEqual(['b'])
})
