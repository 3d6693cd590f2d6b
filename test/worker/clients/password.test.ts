import pg from 'pg'
import { expect, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { useWorkers } from '../../support/worker-environment.ts'
import { Tokens } from './tokens.ts'

const env = useWorkers()

test.each([
  ['undefined', undefined, /^the `password` function of the pool returned undefined, .*: have it return/],
  ['an empty text', '', /^the `password` function of the pool returned an empty text/],
  ['a number', 4711, /^the `password` function of the pool returned no text/],
])('a `password` function that returns %s is told as that', async (_name, password, told) => {
  const tokens = await Tokens.create(env)
  const pool = new pg.Pool({ ...tokens.place, password: (async () => password) as never })
  env.later(async () => {
    await pool.end()
    await tokens.drop()
  })
  const worker = env.create(
    { queues: [env.queue({ perform() {} })] },
    new Lockstep({ pool, logger: env.logger }),
  )
  await expect(worker.start()).rejects.toMatchObject({
    code: 'LOCKSTEP_AUTHENTICATION',
    message: expect.stringMatching(told),
  })
})
