import { once } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import { expect, it, vi } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { createDatabase } from '../support/database.ts'
import { serve } from './site.ts'

function serving(connectionString: string, error: (fields: object, message: string) => void) {
  const lockstep = new Lockstep({ connectionString, logger: { debug() {}, info() {}, warn() {}, error } })
  return serve(lockstepWeb(lockstep, { access: 'open' }).node)
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

it('a database that can’t be reached is 503, and the log alone says where it is', async () => {
  const error = vi.fn()
  const port = await closedPort()
  const site = await serving(`postgres://someone:sesame@127.0.0.1:${port}/x`, error)
  for (const path of ['stats', 'queues', 'queues/a', 'queues/a/jobs', 'queues/a/dead/count', 'processes']) {
    const answer = await site.ask(`/api/v1/${path}`)
    expect([path, answer.status, answer.headers.get('retry-after')]).toEqual([path, 503, '5'])
    expect(answer.json.code).toBe('LOCKSTEP_CONNECTION')
    expect(answer.text).not.toMatch(new RegExp(`${port}|someone|sesame`))
  }
  const act = await site.act('/api/v1/queues/a/jobs/delete', { all: true })
  expect([act.status, act.json.code]).toEqual([503, 'LOCKSTEP_CONNECTION'])
  const page = await site.ask('/')
  expect([page.status, page.text]).toEqual([
    503,
    expect.stringMatching(/^503 Service Unavailable: the database/),
  ])
  expect(error.mock.calls[0]![0]).toMatchObject({ error: { message: expect.stringContaining(String(port)) } })
})

it('a database without our schema is 500, and the log says what to do', async () => {
  const database = await createDatabase()
  const error = vi.fn()
  const site = await serving(database.connectionString, error)
  const { status, json } = await site.ask('/api/v1/queues')
  expect([status, json.code]).toEqual([500, 'LOCKSTEP_SCHEMA_MISSING'])
  expect(String(error.mock.calls[0]![0].error)).toMatch(/run `lockstep migrate` first/)
  await database.drop()
})

it('a database that takes no connections is 503, and the log says how to allow them', async () => {
  const database = await createDatabase()
  const name = new URL(database.connectionString).pathname.slice(1)
  const server = new pg.Client({
    connectionString: database.connectionString.replace(`/${name}`, '/postgres'),
  })
  await server.connect()
  await server.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`)
  const error = vi.fn()
  const site = await serving(database.connectionString, error)
  const { status, json } = await site.ask('/api/v1/queues')
  expect([status, json.code]).toEqual([503, 'LOCKSTEP_CONNECTION'])
  expect(String(error.mock.calls[0]![0].error)).toMatch(/ALLOW_CONNECTIONS true/)
  await server.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`)
  await server.end()
  await database.drop()
})
