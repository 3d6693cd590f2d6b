import { Socket } from 'node:net'
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { connectionConfigOf, forThread } from '../../src/postgres/connection.ts'

test.each([
  ['a config', { host: 'localhost' }],
  ['a connection string', 'postgres://localhost/x'],
  ['a client', new pg.Client()],
  ['an object that only has its methods', { query() {}, connect() {} }],
  ['a number', 5],
  ['null', null],
])('%s is no pool', (_name, pool) => {
  expect(() => new Lockstep({ pool: pool as never })).toThrow(
    expect.objectContaining({
      code: 'LOCKSTEP_BAD_OPTION',
      message: expect.stringMatching(/^Lockstep: pool must be a Pool of `pg`, not /),
    }),
  )
})

test.each([
  ['password', { password: async () => 'fetched' }, /the password of the pool is a function/],
  ['stream', { stream: () => new Socket() }, /the pool has a `stream`/],
  [
    'check of the server',
    { ssl: { ca: 'ca', checkServerIdentity: () => undefined } },
    /`ssl\.checkServerIdentity` of the pool is a function/,
  ],
])('a pool with a %s of its own can produce, and work with a direct URL', (_name, options, message) => {
  const pool = new pg.Pool(options as pg.PoolConfig)
  const queues = [defineQueue('any', { perform() {} })]
  const lockstep = new Lockstep({ pool })
  expect(() => lockstep.createWorker({ queues })).toThrow(
    expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(message) }),
  )
  expect(() => lockstep.createWorker({ queues })).toThrow(/set `directUrl`/)
  new Lockstep({ pool, directUrl: 'postgres://localhost/x' }).createWorker({ queues })
})

test.each(['postgresql://localhost/x', 'postgres:///x?host=/tmp', 'socket:/tmp?db=x', '/tmp x'])(
  'a connection string may be %s',
  (connectionString) => {
    expect(() => new Lockstep({ connectionString, directUrl: connectionString })).not.toThrow()
  },
)

test('a thread gets the key of `ssl`, though the driver hides it', () => {
  const ssl = { key: 'key', cert: 'cert', ca: 'ca' }
  const config = connectionConfigOf(new pg.Pool({ ssl: { ...ssl } }), 'app')
  // A client hides it in the config that it is given, too.
  new pg.Client(config)
  expect(structuredClone(forThread(config)).ssl).toEqual(ssl)
})

test.each([
  ['neither a pool nor a connection string', {}, /give either `connectionString` or `pool`/],
  ['both', { connectionString: 'postgres://localhost/x', pool: new pg.Pool() }, /give either/],
  [
    'an empty connection string',
    { connectionString: '' },
    /connectionString is empty: is its variable set\?/,
  ],
  [
    'a number as a connection string',
    { connectionString: 3 as never },
    /: connectionString must be a URL .*, not 3$/,
  ],
  [
    'a connection string that the driver would take for the name of a database',
    { connectionString: 'host=localhost password=secret' },
    /^Lockstep: connectionString must be a URL (?!.*secret)/,
  ],
  [
    'an empty direct URL',
    { pool: new pg.Pool(), directUrl: '' },
    /directUrl is empty: is its variable set\?/,
  ],
])('%s is refused', (_name, options, message) => {
  expect(() => new Lockstep(options)).toThrow(
    expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(message) }),
  )
})
