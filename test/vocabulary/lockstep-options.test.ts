import pg from 'pg'
import { expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'

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
  ['neither a pool nor a connection string', {}, /give either `connectionString` or `pool`/],
  ['both', { connectionString: 'postgres://localhost/x', pool: new pg.Pool() }, /give either/],
  [
    'an empty connection string',
    { connectionString: '' },
    /connectionString is empty: is its variable set\?/,
  ],
])('%s is refused', (_name, options, message) => {
  expect(() => new Lockstep(options)).toThrow(
    expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(message) }),
  )
})
