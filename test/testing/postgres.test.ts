import pg from 'pg'
import { expect, test } from 'vitest'
import { startPostgres } from '../../src/testing/index.ts'

test('startPostgres starts a server with settings, and stops it', async () => {
  const { connectionString, stop } = await startPostgres({ timezone: 'Asia/Tokyo' })
  const client = new pg.Client({ connectionString })
  await client.connect()
  const { rows } = await client.query(
    `SELECT current_setting('timezone') AS zone, current_setting('fsync') AS fsync`,
  )
  expect(rows).toEqual([{ zone: 'Asia/Tokyo', fsync: 'off' }])
  await client.end()
  await stop()
  await expect(new pg.Client({ connectionString }).connect()).rejects.toThrow()
})
