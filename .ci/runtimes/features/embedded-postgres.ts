import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import pg from 'pg'
import { startPostgres } from 'pg-lockstep/testing'

const postgres = await startPostgres({ timezone: 'UTC' })
const client = new pg.Client({ connectionString: postgres.connectionString })
await client.connect()
const { rows } = await client.query(
  `SELECT current_setting('timezone') AS zone, current_setting('data_directory') AS data`,
)
assert.equal(rows[0].zone, 'UTC')
await client.end()
await postgres.stop()
assert.equal(existsSync(rows[0].data), false)
