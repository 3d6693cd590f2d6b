import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { openDatabase } from '../postgres/open-database.ts'
import { StrandedSessions } from './membership/stranded.ts'
import type { WorkerHome } from './options.ts'
import { LOADS_AT_ONCE } from './performing/loading.ts'
import { MAX_CALLS } from './settling/batcher.ts'
import { WAITING_AT_ONCE } from './settling/completer.ts'

/** ms that a call to the database may take before its connection counts as broken. */
const CALL_TIMEOUT = 10_000
/** Concurrent calls for polling, settling, counting, comparing shards, and maintenance of two kinds with their locks. */
const OTHER_CALLS = 7
/** Only one claim at a time waits for a row. */
const WAITING_CLAIMS = 1

/** A worker's connection pools. Connections are opened on demand. */
export class Pools {
  /** For the worker's own statements. */
  readonly own: Database
  /**
   * For handlers' transactions, one connection per slot. What their statements leave in a session must not affect anything
   * else.
   */
  readonly handlers: Database
  readonly stranded: StrandedSessions

  constructor(slots: number, { config, schema, logger }: WorkerHome) {
    const options = { schema, logger, callTimeout: CALL_TIMEOUT }
    const calls = MAX_CALLS + LOADS_AT_ONCE + OTHER_CALLS + WAITING_AT_ONCE + WAITING_CLAIMS
    this.own = openDatabase({ ...config, max: calls }, { ...options, use: 'own' })
    this.handlers = openDatabase({ ...config, max: slots }, { ...options, use: 'lent' })
    this.stranded = new StrandedSessions(this.own, logger)
    for (const { pool } of [this.own, this.handlers]) {
      pool.on('release', (error, client) => {
        if (isConnectionFailure(error)) this.stranded.add(client)
      })
      pool.on('error', (_, idle) => this.stranded.add(idle))
    }
  }

  async end(): Promise<void> {
    await this.stranded.end()
    await Promise.all([this.own.pool.end(), this.handlers.pool.end()])
  }
}
