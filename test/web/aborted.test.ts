import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, until } from '../support/store-environment.ts'
import { serve } from './site.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())

it.each([
  ['of a known length', 'Content-Length: 100\r\n\r\n{"al'],
  ['in chunks', 'Transfer-Encoding: chunked\r\n\r\n4\r\n{"al\r\n'],
])('a client that goes away within a body %s is no error in the log', async (_, rest) => {
  const error = vi.fn()
  const debug = vi.fn()
  const authorize = vi.fn(() => true)
  const logger = { debug, info() {}, warn: error, error }
  const web = lockstepWeb(new Lockstep({ pool: env.database.pool, logger }), { authorize })
  const site = await serve(web.node)
  const socket = connect(Number(new URL(site.origin).port), '127.0.0.1')
  socket.write(
    `POST /api/v1/queues/a/jobs/delete HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${rest}`,
  )
  await until(() => expect(authorize).toHaveBeenCalled())
  socket.destroy()
  await until(() =>
    expect(debug).toHaveBeenCalledWith(expect.anything(), expect.stringContaining('went away')),
  )
  expect(error).not.toHaveBeenCalled()
})
