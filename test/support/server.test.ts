import { expect, test } from 'vitest'
import { findServer } from './server.ts'

const DATABASE_URL = 'postgres://somebody:secret@db.example:5433/tests'

test('DATABASE_URL wins, and is told without its password', async () => {
  const env = { DATABASE_URL, LOCKSTEP_TEST_DATABASE: 'container' }
  expect(await findServer(env)).toEqual({
    name: 'db.example:5433/tests, the server of DATABASE_URL',
    connectionString: DATABASE_URL,
  })
})

test('a kind of server that there is not is refused, whatever DATABASE_URL says', async () => {
  const refused = 'LOCKSTEP_TEST_DATABASE must be embedded or container, not "contaner"'
  for (const env of [{}, { DATABASE_URL }])
    await expect(findServer({ ...env, LOCKSTEP_TEST_DATABASE: 'contaner' })).rejects.toThrow(refused)
})

test('a container that can’t be started is told by the name of its image', async () => {
  const env = { LOCKSTEP_TEST_DATABASE: 'container', LOCKSTEP_TEST_IMAGE: 'lockstep.invalid/none:1' }
  await expect(findServer(env)).rejects.toThrow(
    /^the container image lockstep.invalid\/none:1 could not be started/,
  )
})
