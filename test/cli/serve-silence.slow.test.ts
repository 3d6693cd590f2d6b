import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from '../http/lmstfy/wire.ts'
import { Network } from '../support/network.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { Command } from './command.ts'

let env: StoreEnvironment
let network: Network
let command: Command

beforeAll(async () => {
  env = await openStore()
  network = await Network.to(env.connectionString)
  command = new Command(['serve', '--json', '--port', '0', '--admin-port', '0'], {
    env: { DATABASE_URL: network.connectionString },
  })
})
afterAll(async () => {
  command.child.kill('SIGKILL')
  await command.ended
  network.close()
  await env.close()
})

test('where its connections have gone silent, each request is answered, and new ones take their place', {
  timeout: 120_000,
}, async () => {
  const line = await command.line((one) => 'url' in one)
  const port = Number(new URL(line.url as string).port)
  const { token } = await env.lockstep.createToken({ name: 'silence', scopes: ['produce', 'consume'] })
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const post = (path: string, body: unknown) =>
    send(port, 'POST', `/v1${path}`, { headers, body: JSON.stringify(body) })
  const some = () =>
    Promise.all(
      Array.from({ length: 20 }, (_, id) =>
        post('/queues/silence/jobs', { id }).then(({ status }) => status),
      ),
    )
  expect(new Set(await some())).toEqual(new Set([200]))
  expect((await post('/claim', { queues: 'silence' })).json.jobs).toHaveLength(1)
  network.strand()
  expect(await some()).toContain(503)
  expect(new Set(await some())).toEqual(new Set([200]))
  expect((await post('/claim', { queues: 'silence', wait: 20 })).json.jobs).toHaveLength(1)
})
