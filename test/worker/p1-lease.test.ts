import { expect, test } from 'vitest'
import { aborted, block, eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

interface LeaseRow {
  /** ms since 1970 */
  ends: number
  runs: boolean
}

async function leaseOf(processId: number): Promise<LeaseRow | undefined> {
  const [row] = await env.sql<LeaseRow>(
    `SELECT extract(epoch FROM expires_at)::float8 * 1000 AS ends, expires_at > clock_timestamp() AS runs
     FROM lockstep.processes WHERE process_id = $1`,
    [processId],
  )
  return row
}

// A lease that has ended is never renewed. So if it runs now, it has never ended. The worker itself may hear of
// renewals late.
test('P1: the server has the lease of a blocked event loop renewed all the while', async () => {
  const lease = 1_000
  const queue = env.queue({
    perform() {
      block(2.5 * lease)
    },
  })
  const worker = await env.work({ queues: [queue], lease })
  const { processId } = worker
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'busy' })
  await completed
  expect(await leaseOf(processId)).toMatchObject({ runs: true })
})

test('P1: a lease counts from before its renewal: where answers are slow, signals are aborted in time', {
  tags: 'slow',
}, async () => {
  // Renewed every 1.5 s, which is also how long an answer may take, and aborted 1.2 s before it ends.
  const lease = 6_000
  const slowly = 1.42
  const abortedAt: number[] = []
  const queue = env.queue({
    async perform(_, { signal }) {
      await aborted(signal)
      abortedAt.push(Date.now())
    },
  })
  const worker = await env.work({ queues: [queue], lease })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  await env.sql(`
    CREATE FUNCTION answer_slowly() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_sleep(${slowly}); RETURN NULL; END $$;
    CREATE TRIGGER answer_slowly AFTER UPDATE OF expires_at ON lockstep.processes
      FOR EACH ROW EXECUTE FUNCTION answer_slowly()`)
  const before = (await leaseOf(worker.processId))!
  await eventually(async () => expect((await leaseOf(worker.processId))!.ends).toBeGreaterThan(before.ends))

  // From here on, renewals wait.
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  const { ends } = (await leaseOf(worker.processId))!
  await eventually(() => expect(abortedAt).toHaveLength(1))
  expect(abortedAt[0]).toBeLessThan(ends)
  await blocker.query('COMMIT')
})
