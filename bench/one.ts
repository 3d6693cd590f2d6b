import pg from 'pg'
import type { Case, Figures } from './case.ts'
import { cases } from './cases.ts'
import type { Setting } from './contender.ts'
import { open } from './contenders/open.ts'
import type { Entrant } from './entrants.ts'
import { Meters } from './measure/cost.ts'

/** What the parent process asks for. */
export interface Order {
  readonly caseName: string
  readonly entrant: Entrant
  readonly quick: boolean
  readonly connectionString: string
  readonly redis: { readonly url: string; readonly pid: number } | undefined
}

export interface Answer extends Figures {
  /** Describes the contender's configuration. */
  readonly told: string
}

/** Runs one case with one contender, in its own process, and prints the measurements as a line of JSON. */
async function main(): Promise<void> {
  const order = JSON.parse(process.argv[2]!) as Order
  const benchCase = cases.find(({ name }) => name === order.caseName)!
  const setting = settingOf(benchCase, order)
  const pool = new pg.Pool({ connectionString: order.connectionString, max: 2 })
  const contender = await open(order.entrant.name, setting)
  await contender.setUp()
  await pool.query('CHECKPOINT')
  const meters = await Meters.open(pool, order.redis ? [order.redis.pid] : [])
  const size = order.quick ? benchCase.quick : benchCase.full
  const figures = await benchCase.run({ entrant: order.entrant, contender, setting, size, pool, meters })
  console.log(JSON.stringify({ told: contender.told, ...figures } satisfies Answer))
  // Connections and workers end with the process.
  process.exit()
}

function settingOf(benchCase: Case, order: Order): Setting {
  const { ordering = 'any', concurrency = 10, connections = 40, retryIn, tuning = {} } = benchCase
  const { connectionString, redis, entrant } = order
  return {
    connectionString,
    redisUrl: redis?.url,
    configuration: entrant.configuration,
    ordering,
    concurrency,
    connections,
    retryIn,
    tuning,
  }
}

await main()
