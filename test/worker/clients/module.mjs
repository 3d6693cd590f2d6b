import { readFile } from 'node:fs/promises'
import pg from 'pg'

// JavaScript, as the lease's thread loads it without a loader.

/** The login is read anew each time, since it has a token. */
export default async function createClient(options) {
  const login = JSON.parse(await readFile(process.env.LOCKSTEP_TEST_LOGIN, 'utf8'))
  return new pg.Client({ ...options, ...login })
}
