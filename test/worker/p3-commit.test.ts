import { beforeAll, expect, test } from 'vitest'
import { Recorder } from '../support/recorder.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

beforeAll(async () => {
  await env.sql('CREATE TABLE accounts (id text PRIMARY KEY)')
  await env.sql(`
    CREATE TABLE bookings (account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)`)
})

test('P3: where the handler’s COMMIT fails there is no completion either, and the round is performed again', async () => {
  const recorder = new Recorder()
  const queue = env.transactional({
    perform: recorder.around(async (_, { tx }) => {
      await tx.query(`INSERT INTO bookings VALUES ('a')`)
      if (recorder.runs.length > 1) await tx.query(`INSERT INTO accounts VALUES ('a')`)
    }),
  })
  await env.work({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'booked' })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(await env.sql('SELECT account FROM bookings')).toEqual([{ account: 'a' }])
  expect(recorder.of('booked')).toHaveLength(2)
})
