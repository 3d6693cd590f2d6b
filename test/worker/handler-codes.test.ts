import { beforeAll, expect, test } from 'vitest'
import { eventually, type TransactionalPerform, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

beforeAll(async () => {
  await env.sql('CREATE TABLE refused (code text)')
  await env.sql(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = NEW.code; END $$`)
  await env.sql(`
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON refused DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse()`)
})

/** A session that ends, or a connection, has these too; so have errors of foreign servers, and of anyone's RAISE. */
const CODES = [
  '57P01',
  '57P05',
  '08001',
  '08006',
  '25P03',
  '53300',
  '3D000',
  '42P01',
  '42501',
  '25006',
  'LK002',
]

const insert = (tx: Parameters<TransactionalPerform>[1]['tx'], code: string) =>
  tx.query('INSERT INTO refused VALUES ($1)', [code])

const WAYS: Record<string, { perform: TransactionalPerform; error: (code: string) => object }> = {
  'its COMMIT': {
    perform: (batch, { tx }) => insert(tx, String([...batch.keys()][0])),
    error: (code) => ({ message: 'refused', code }),
  },
  'its statement': {
    perform: async (batch, { tx }) => {
      await insert(tx, String([...batch.keys()][0]))
      await tx.query('SET CONSTRAINTS ALL IMMEDIATE')
    },
    error: (code) => ({ message: 'refused', code }),
  },
  'a statement whose error it swallows': {
    perform: async (batch, { tx }) => {
      await insert(tx, String([...batch.keys()][0]))
      await tx.query('SET CONSTRAINTS ALL IMMEDIATE').catch(() => {})
    },
    error: () => ({ message: expect.stringMatching(/left its transaction aborted/) }),
  },
}

test.each(Object.entries(WAYS))(
  'R7: whatever code the error of %s has, the session lives, and it is a failure like any other',
  async (_, { perform, error }) => {
    const runs = new Map<string, number>()
    const counted: TransactionalPerform = async (batch, context) => {
      for (const id of batch.keys()) runs.set(id, (runs.get(id) ?? 0) + 1)
      await perform(batch, context)
    }
    const queue = env.transactional({ maxRetryCount: 1, perform: counted })
    const worker = env.create({ queues: [queue], slots: 1 })
    const died = new Map<string, unknown>()
    worker.on('died', ({ id, error }) => died.set(id, error))
    await env.lockstep.enqueue(
      queue,
      CODES.map((id) => ({ id })),
    )
    await worker.start()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    for (const code of CODES) expect([code, died.get(code)]).toMatchObject([code, error(code)])
    expect(runs).toEqual(new Map(CODES.map((code) => [code, 2])))
  },
)
