import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length

test('a login that fails for lack of a password says so, and leaves no connection open', async ({ skip }) => {
  const url = new URL(env.connectionString)
  url.password = ''
  const { connectionString } = { connectionString: url.href }
  const asked = await new pg.Client({ connectionString: `${connectionString}?connect_timeout=5` })
    .connect()
    .then(
      () => false,
      (error: Error) => error.message.startsWith('SASL'),
    )
  if (!asked) skip('this server asks for no password')
  const lockstep = new Lockstep({ connectionString })
  const before = sockets()
  for (let tries = 0; tries < 10; tries += 1) {
    await expect(lockstep.enqueue(defineQueue('secret'), { id: 'a' })).rejects.toMatchObject({
      code: 'LOCKSTEP_AUTHENTICATION',
      message: expect.stringContaining('password'),
    })
  }
  await lockstep.close()
  await expect.poll(sockets).toBeLessThanOrEqual(before)
})
