import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment
let sql: ReturnType<typeof connect>

/** Its serializers take what the application has: dates and objects, not texts. */
function connect() {
  return postgres(env.connectionString, {
    types: {
      date: {
        to: 1184,
        from: [1184],
        serialize: (date: Date) => date.toISOString(),
        parse: (text: string) => new Date(text),
      },
      json: {
        to: 3802,
        from: [3802],
        serialize: (value: object) => JSON.stringify(value),
        parse: JSON.parse,
      },
    },
  })
}

beforeAll(async () => {
  env = await openStore()
  sql = connect()
})
afterAll(async () => {
  await sql?.end()
  await env?.close()
})

test('types that the application serializes in its own way don’t change what is pushed', async () => {
  const { queue, queueId } = await env.queue()
  const performIn = new Date(Date.now() + 3_600_000)
  const jobs = ['a', 'b', 'c'].map((id) => ({ id, payload: { of: id }, performIn }))
  await sql.begin(async (tx) => {
    await env.lockstep.enqueue(queue, jobs.slice(1), { tx })
    // From the second push on, one job goes by a statement of its own.
    await env.lockstep.enqueue(queue, jobs[0]!, { tx })
  })
  const stored = await env.query(
    'SELECT id, payload, perform_in AS "performIn" FROM lockstep.jobs WHERE queue_id = $1 ORDER BY id',
    [queueId],
  )
  expect(stored).toEqual(jobs)
})
