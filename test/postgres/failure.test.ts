import { describe, expect, test } from 'vitest'
import { isConnectionFailure, mayLive, toStartError } from '../../src/postgres/failure.ts'

const coded = (message: string, fields: object) => Object.assign(new Error(message), fields)

describe('a start that fails because of a connection has our code, whatever the driver says', () => {
  test.each([
    ['the driver, while it connects', new Error('timeout expired')],
    ['the driver, while it waits', new Error('Query read timeout')],
    ['the driver, when the connection ends', new Error('Connection terminated unexpectedly')],
    [
      'a Unix socket that is gone while the server restarts',
      coded('connect ENOENT /tmp/.s.PGSQL.5432', { code: 'ENOENT', syscall: 'connect' }),
    ],
    ['the system', coded('read ECONNRESET', { code: 'ECONNRESET' })],
    ['the server', coded('terminating connection', { code: '57P01', severity: 'FATAL' })],
  ])('%s', (_, error) => {
    expect(toStartError(error)).toMatchObject({
      code: 'LOCKSTEP_CONNECTION',
      message: expect.stringMatching(/: create another one when the server can be reached$/),
    })
  })

  test('and so has a login or an encryption that the driver refuses', () => {
    const login = new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string')
    expect(toStartError(login)).toMatchObject({
      code: 'LOCKSTEP_AUTHENTICATION',
      message: expect.stringContaining('`password` of the pool be or return one'),
    })
    const encryption = new Error('The server does not support SSL connections')
    expect(toStartError(encryption)).toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
  })

  test('and what we know more of keeps its advice', () => {
    const refused = coded('connect ECONNREFUSED', { code: 'ECONNREFUSED', syscall: 'connect' })
    expect(toStartError(refused)).toMatchObject({ message: expect.stringMatching('check the host and port') })
    const other = new Error('the schedule is odd')
    expect(toStartError(other)).toBe(other)
  })
})

test('a session may live on after an ERROR with the code of a lost connection, and not after a FATAL one', () => {
  const failed = coded('could not connect to server "other"', { code: '08006', severity: 'ERROR' })
  expect([isConnectionFailure(failed), mayLive(failed)]).toEqual([true, true])
  const ended = coded('terminating connection', { code: '57P01', severity: 'FATAL' })
  expect([isConnectionFailure(ended), mayLive(ended)]).toEqual([true, false])
  expect(mayLive(new Error('wrapped', { cause: failed }))).toBe(true)
  expect(mayLive(new Error('Connection terminated unexpectedly'))).toBe(false)
})
