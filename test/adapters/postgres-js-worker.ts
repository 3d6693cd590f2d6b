import { once } from 'node:events'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import * as onDrizzle from '../../src/adapters/drizzle.ts'
import * as onPostgresJs from '../../src/adapters/postgres-js.ts'
import { type Batch, defineQueue, Lockstep, type Queue } from '../../src/index.ts'

/** What the parent sends. */
export interface Duty {
  readonly connectionString: string
  readonly queue: string
  readonly library: keyof typeof QUEUES
  /** Connections of postgres.js. */
  readonly max: number
  /** What a handler does between its two writes before the sessions have ended: waits for the next message, or sends this. */
  readonly statement: string | undefined
  /** The sessions have ended already. */
  readonly isOver: boolean
}

type Step = (execute: (text: string) => PromiseLike<unknown>) => Promise<unknown>

const QUEUES = {
  'postgres.js': (name: string, sql: postgres.Sql, step: Step): Queue =>
    defineQueue(name, {
      transactional: onPostgresJs.transactionsOf(sql),
      async perform(batch: Batch, { tx }) {
        for (const id of batch.keys()) {
          await tx.savepoint((inner) => inner`INSERT INTO written VALUES (${id})`)
          await step((text) => tx.unsafe(text))
          await tx`INSERT INTO written VALUES (${id})`
        }
      },
    }),
  Drizzle: (name: string, sql: postgres.Sql, step: Step): Queue =>
    defineQueue(name, {
      transactional: onDrizzle.transactionsOf(drizzle(sql)),
      async perform(batch: Batch, { tx }) {
        for (const id of batch.keys()) {
          await tx.transaction((inner) => inner.execute(`INSERT INTO written VALUES ('${id}')`))
          await step((text) => tx.execute(text))
          await tx.execute(`INSERT INTO written VALUES ('${id}')`)
        }
      },
    }),
} as const

const [duty] = (await once(process, 'message')) as [Duty]
let { isOver } = duty
const over = isOver ? Promise.resolve() : once(process, 'message')
void over.then(() => {
  isOver = true
})
const lockstep = new Lockstep({ connectionString: duty.connectionString })
const sql = postgres(duty.connectionString, { max: duty.max, onnotice() {} })
const queue = QUEUES[duty.library](duty.queue, sql, async (execute) => {
  if (isOver) return
  process.send!('begun')
  await (duty.statement === undefined ? over : execute(duty.statement))
})
const worker = lockstep.createWorker({ queues: [queue], slots: 4, lease: 1_000 })
await worker.start()
process.once('disconnect', async () => {
  await worker.stop()
  process.exit()
})
