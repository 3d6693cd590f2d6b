import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Case } from './case.ts'
import type { Entrant } from './entrants.ts'
import type { Answer, Order } from './one.ts'
import { startRedis } from './redis.ts'

const execute = promisify(execFile)
const ONE = fileURLToPath(new URL('one.ts', import.meta.url))
/** ms. Postgres takes a while to give files back: the more files, the longer. */
const LONGEST = 1_800_000

/** One measurement of one contender. */
export interface Run extends Answer {
  readonly case: string
  readonly name: Entrant['name']
  readonly configuration: Entrant['configuration']
}

export interface Runner {
  readonly node: string
  /** Names a superuser and a database to connect to. */
  readonly connectionString: string
  readonly quick: boolean
}

/** Runs a case with a contender, in its own process and database; undefined if its server is missing. */
export async function runOne(
  runner: Runner,
  { name: caseName }: Case,
  entrant: Entrant,
): Promise<Run | undefined> {
  const redis = await redisFor(entrant)
  if (redis === 'missing') return undefined
  try {
    return await inDatabase(runner.connectionString, async (connectionString) => {
      const order: Order = {
        caseName,
        entrant,
        quick: runner.quick,
        connectionString,
        redis: redis && { url: redis.url, pid: redis.pid },
      }
      const { stdout, stderr } = await execute(
        runner.node,
        ['--disable-warning=ExperimentalWarning', ONE, JSON.stringify(order)],
        { timeout: LONGEST, maxBuffer: 10_000_000 },
      )
      if (stderr) console.error(stderr)
      const answer = JSON.parse(stdout.trim().split('\n').at(-1)!) as Answer
      return { case: caseName, ...entrant, ...answer }
    })
  } finally {
    await redis?.stop()
  }
}

async function redisFor({ name }: Entrant) {
  if (!name.includes('redis')) return undefined
  return (await startRedis(name.includes('fsync') ? 'fsync' : 'default')) ?? 'missing'
}

const DATABASE = 'pg_lockstep_bench'

async function inDatabase<T>(
  connectionString: string,
  work: (connectionString: string) => Promise<T>,
): Promise<T> {
  const admin = new pg.Client({ connectionString })
  await admin.connect()
  try {
    await admin.query(`DROP DATABASE IF EXISTS ${DATABASE} WITH (FORCE)`)
    await admin.query(`CREATE DATABASE ${DATABASE}`)
    const url = new URL(connectionString)
    url.pathname = DATABASE
    return await work(url.href)
  } finally {
    await admin.query(`DROP DATABASE IF EXISTS ${DATABASE} WITH (FORCE)`)
    await admin.end()
  }
}
