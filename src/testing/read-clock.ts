import type { Database } from '../postgres/database.ts'
import { ServerClock } from '../worker/schedule/server-clock.ts'

/** The clock of the server, which decides what has expired. */
export async function readClock(database: Database): Promise<ServerClock> {
  const clock = new ServerClock()
  const askedAt = performance.now()
  const [row] = await database.query<{ now: number }>(
    `SELECT ${database.prefix}.micros(clock_timestamp()) AS now`,
  )
  clock.compare({ began: row!.now, ended: row!.now }, askedAt, performance.now())
  return clock
}
