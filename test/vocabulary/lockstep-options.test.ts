import { Socket } from 'node:net'
import { createSecureContext } from 'node:tls'
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { connectionConfigOf } from '../../src/postgres/pool-options.ts'
import { forThread } from '../../src/postgres/thread-config.ts'

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
  ['password', { password: async () => 'fetched' }, 'password'],
  ['stream', { stream: () => new Socket() }, 'sessions'],
  ['check of the server', { ssl: { ca: 'ca', checkServerIdentity: () => undefined } }, 'sessions'],
  ['secure context', { ssl: { secureContext: createSecureContext() } }, 'sessions'],
  ['class of client', { Client: class extends pg.Client {} }, 'sessions'],
  ['copy of the driver', {}, 'nothing'],
])(
  'a worker can be created for a pool with a %s of its own; what its thread needs',
  (_name, options, needs) => {
    const pool = new pg.Pool(options as pg.PoolConfig)
    if (needs === 'nothing') Object.assign(pool, { Client: class extends pg.Client {} })
    new Lockstep({ pool }).createWorker({ queues: [defineQueue('any', { perform() {} })] })
    const thread = forThread(connectionConfigOf(pool, 'app'))
    expect(thread.needs).toBe(needs)
    structuredClone(thread)
  },
)

test.each([
  ['that lacks methods', { info() {}, warn() {} }, /an object has no debug\(\), error\(\)$/],
  ['null', null, /null has no debug\(\), info\(\), warn\(\), error\(\)$/],
])('a logger %s is refused', (_name, logger, message) => {
  expect(() => new Lockstep({ pool: new pg.Pool(), logger: logger as never })).toThrow(
    expect.objectContaining({
      code: 'LOCKSTEP_BAD_OPTION',
      message: expect.stringMatching(new RegExp(`^Lockstep: logger must have .*: ${message.source}`)),
    }),
  )
})

test('a pool whose only stream all connections would share is refused', () => {
  const lockstep = new Lockstep({ pool: new pg.Pool({ stream: new Socket() as never }) })
  expect(() => lockstep.createWorker({ queues: [defineQueue('any', { perform() {} })] })).toThrow(
    expect.objectContaining({
      code: 'LOCKSTEP_BAD_OPTION',
      message: expect.stringMatching(/make it a function that returns a new one$/),
    }),
  )
})

test('a worker’s connections have the options of the pool, and not those of pools', () => {
  const given = {
    host: 'db',
    port: 1,
    user: 'me',
    password: 'secret',
    options: '-c search_path=shop',
    ssl: true,
  }
  const more = { application_name: 'shop', client_encoding: 'utf8', enableChannelBinding: true }
  const pool = { max: 3, min: 1, idleTimeoutMillis: 5, maxUses: 7, query_timeout: 3 }
  const config = connectionConfigOf(new pg.Pool({ ...given, ...more, ...pool } as pg.PoolConfig), 'app')
  expect(config).toEqual({
    ...given,
    ...more,
    keepAlive: true,
    keepAliveInitialDelayMillis: 3_000,
    connectionTimeoutMillis: 10_000,
  })
})

test.each([
  [1_000, 10_000],
  [60_000, 60_000],
])('a pool that waits %d ms for a connection has workers wait %d ms', (connectionTimeoutMillis, expected) => {
  const config = connectionConfigOf(new pg.Pool({ connectionTimeoutMillis }), 'app')
  expect(config.connectionTimeoutMillis).toBe(expected)
})

test.each([
  ['a text', 'postgres://me:secret@db/x', /not a text$/],
  ['a client', new pg.Client(), /not a Client$/],
  ['a pool', new pg.Pool(), /not a BoundPool$/],
  ['null', null, /not null$/],
])('%s is no createClient', (_name, createClient, message) => {
  expect(() => new Lockstep({ pool: new pg.Pool(), createClient: createClient as never })).toThrow(
    expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(message) }),
  )
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
  expect(structuredClone(forThread(config)).config.ssl).toEqual(ssl)
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
    'a direct URL beside a function that creates clients',
    { pool: new pg.Pool(), directUrl: 'postgres://localhost/x', createClient: () => new pg.Client() },
    /give either `directUrl` or `createClient`/,
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
