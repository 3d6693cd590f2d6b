import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { openDatabase } from '../postgres/open-database.ts'
import { StrandedSessions } from './membership/stranded.ts'
import type { WorkerHome } from './options.ts'
import { LOADS_AT_ONCE } from './performing/loading.ts'
import { MAX_CALLS } from './settling/batcher.ts'
import { WAITING_AT_ONCE } from './settling/completer.ts'

/** ms a call to the database may take before its connection counts as broken. */
const CALL_TIMEOUT = 10_000
/** Calls at once for looking, settling, counting, comparing shards, and maintenance with its lock. */
const OTHER_CALLS = 5
/** One claim waits at a time. */
const WAITING_CLAIMS = 1

/** A worker's ways to the database. Connections are opened when they are needed. */
export class Pools {
  /** For what the worker does itself. */
  readonly own: Database
  /** For handlers' transactions, one a slot: what their statements leave in a session is to meet nothing else. */
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
