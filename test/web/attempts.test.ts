import { expect, it } from 'vitest'
import { Attempts, networkOf } from '../../src/web/access/attempts.ts'

it('an address has ten failures in a row, and then one every five seconds', () => {
  const attempts = new Attempts()
  for (let n = 0; n < 10; n += 1) {
    expect(attempts.wait('a', 0)).toBe(0)
    attempts.fail('a', 0)
  }
  expect([attempts.wait('a', 0), attempts.wait('b', 0)]).toEqual([5_000, 0])
  expect(attempts.wait('a', 4_000)).toBe(1_000)
  expect(attempts.wait('a', 5_000)).toBe(0)
  attempts.fail('a', 5_000)
  expect(attempts.wait('a', 5_000)).toBe(5_000)
  // All are back after a while.
  for (let n = 0; n < 10; n += 1) {
    expect(attempts.wait('a', 100_000)).toBe(0)
    attempts.fail('a', 100_000)
  }
  expect(attempts.wait('a', 100_000)).toBe(5_000)
})

it('remembers a bounded number of addresses, the latest ones', () => {
  const attempts = new Attempts()
  const block = (address: string) => {
    for (let n = 0; n < 10; n += 1) attempts.fail(address, 0)
  }
  block('first')
  for (let n = 0; n < 9_999; n += 1) attempts.fail(`address ${n}`, 0)
  expect(attempts.wait('first', 0)).toBeGreaterThan(0)
  block('last')
  expect([attempts.wait('first', 0), attempts.wait('last', 0) > 0]).toEqual([0, true])
})

it('all addresses of an IPv6 network count as one', () => {
  expect(networkOf('10.0.0.1')).toBe('10.0.0.1')
  expect(networkOf('::ffff:10.0.0.1')).toBe('10.0.0.1')
  expect(networkOf('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2')
  expect(networkOf('2001:db8:1:2::6')).toBe('2001:db8:1:2')
  expect(networkOf('2001:db8::6')).toBe('2001:db8:0:0')
  expect(networkOf('::1')).toBe('0:0:0:0')
  expect(networkOf('fe80::1%eth0')).toBe('fe80:0:0:0')
})
