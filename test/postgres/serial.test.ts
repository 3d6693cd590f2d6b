import { expect, test } from 'vitest'
import { hashOfDefinitions } from '../../src/postgres/definitions.ts'
import { HASH, OLDEST_SERVED, SERIAL } from '../../src/postgres/serial.ts'

test('what sql/ and migrations/ define has a number of its own', async () => {
  const changed =
    'sql/ or migrations/ have changed, and another release may have migrated with this serial: run `npm run serial`, and see docs/upgrading.md'
  expect(await hashOfDefinitions(), changed).toBe(HASH)
  expect(OLDEST_SERVED).toBeLessThanOrEqual(SERIAL)
})
