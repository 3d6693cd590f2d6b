import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
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
  const connectionString = url.href
  const client = new pg.Client({ connectionString: `${connectionString}?connect_timeout=5` })
  const asked = await client.connect().then(
    () => false,
    (error: Error) => error.message.startsWith('SASL'),
  )
  // Otherwise DROP DATABASE waits for this login, on the whole server, for as long as authentication_timeout.
  await client.end()
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

/** As a server sends it that ends a session for good. */
const FATAL = Buffer.from('E\0\0\0\x26SFATAL\0VFATAL\0C57P01\0Mgoing down\0\0', 'latin1')
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1')

test('a session that the server ends together with its login does not end the process', async () => {
  const { hostname, port } = new URL(env.connectionString)
  const between = createServer((client) => {
    const server = connect(Number(port), hostname)
    for (const socket of [client, server]) socket.on('error', () => {})
    client.pipe(server)
    server.on('data', (piece) => {
      if (piece.subarray(-READY.length).equals(READY)) client.end(Buffer.concat([piece, FATAL]))
      else client.write(piece)
    })
    client.on('close', () => server.destroy())
  })
  between.listen(0, '127.0.0.1')
  await once(between, 'listening')
  const url = new URL(env.connectionString)
  url.host = `127.0.0.1:${(between.address() as AddressInfo).port}`
  const lockstep = new Lockstep({ connectionString: url.href })
  await expect(lockstep.enqueue(defineQueue('ended'), { id: 'a' })).rejects.toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
  })
  await lockstep.close()
  between.close()
})
