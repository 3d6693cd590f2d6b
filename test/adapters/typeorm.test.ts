import 'reflect-metadata'
import { DataSource, EntitySchema } from 'typeorm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EnqueueTransaction } from '../../src/index.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

const Item = new EntitySchema<{ id: string }>({
  name: 'Item',
  columns: { id: { type: 'text', primary: true } },
})

let env: StoreEnvironment
let source: DataSource

beforeAll(async () => {
  env = await openStore()
  source = new DataSource({
    type: 'postgres',
    url: env.connectionString,
    entities: [Item],
    synchronize: true,
  })
  await source.initialize()
})
afterAll(async () => {
  await source?.destroy()
  await env?.close()
})

test('a repository stands for the transaction of its manager', async () => {
  const { queue, queueId } = await env.queue()
  const push = (tx: EnqueueTransaction) => env.lockstep.enqueue(queue, { id: 'a' }, { tx })
  const refusal = { code: 'LOCKSTEP_BAD_TRANSACTION' }
  await expect(push(source.getRepository(Item))).rejects.toMatchObject(refusal)
  const ended = await source.transaction(async (manager) => {
    const repository = manager.getRepository(Item)
    await push(repository)
    return repository
  })
  await expect(push(ended)).rejects.toMatchObject(refusal)
  expect(await env.query('SELECT id FROM lockstep.jobs WHERE queue_id = $1', [queueId])).toEqual([
    { id: 'a' },
  ])
})
