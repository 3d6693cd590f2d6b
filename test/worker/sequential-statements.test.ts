import { expect, test } from 'vitest'
import { eventually, type TransactionalPerform, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** The driver warns once a process, so this file has nothing else that could make it. */
const warnings: string[] = []
process.on('warning', ({ message }) => warnings.push(message))

const FAILING: Record<string, TransactionalPerform> = {
  throws: async (_, { tx }) => {
    await tx.query('SELECT 1')
    throw new Error('thrown')
  },
  'has a statement refused': async (_, { tx }) => {
    // To undo these takes a while, so the server is ready for another statement only some time after the error.
    await tx.query(
      `DO $$ BEGIN FOR i IN 1..200 LOOP EXECUTE format('CREATE TABLE made_%s AS SELECT 1 AS one', i); END LOOP; END $$`,
    )
    await tx.query('SELECT 1 / 0')
  },
}

test.each(Object.entries(FAILING))(
  'on the connection of a handler that %s, no statement is sent before the one before it is answered',
  async (_, perform) => {
    const queue = env.transactional({ maxRetryCount: 0, perform })
    await env.work({ queues: [queue] })
    await env.lockstep.enqueue(
      queue,
      ['a', 'b', 'c'].map((id) => ({ id })),
    )
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(warnings).toEqual([])
  },
)
