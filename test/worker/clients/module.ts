import { readFile } from 'node:fs/promises'
import pg from 'pg'
import type { CreateClient } from '../../../src/index.ts'

/** The login is read anew each time, since it has a token. */
const createClient: CreateClient = async (options) => {
  const login = JSON.parse(await readFile(process.env.LOCKSTEP_TEST_LOGIN!, 'utf8'))
  return new pg.Client({ ...options, ...login })
}

export default createClient
