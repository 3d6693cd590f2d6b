import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

async function shardsOf(ids: readonly string[], shards: number): Promise<number[]> {
  const rows = await env.query<{ shard: number }>(
    `SELECT lockstep.shard_of(i.id, $2) AS shard FROM unnest($1::text[]) WITH ORDINALITY AS i(id, place)
     ORDER BY i.place`,
    [ids, shards],
  )
  return rows.map(({ shard }) => shard)
}

test.each([
  ['counted ids', 24, (i: number) => `order-${i}`],
  ['numbers', 5, (i: number) => `${i * 10}`],
  ['long ids with a common beginning', 128, (i: number) => `${'x'.repeat(500)}${i}`],
])('ids are spread evenly over shards: %s', async (_name, shards, idOf) => {
  const ids = Array.from({ length: 20_000 }, (_, i) => idOf(i))
  const counts = new Array(shards).fill(0)
  for (const shard of await shardsOf(ids, shards)) counts[shard] += 1
  const expected = ids.length / shards
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  // Five standard deviations above the mean for an even spread. `counts` has no other key, since then this would be
  // NaN.
  const freedom = shards - 1
  expect(chiSquare).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom))
})

test('a shard is a number below that of shards, whatever the id and its hash', async () => {
  const ids = Array.from({ length: 2_000 }, (_, i) => String.fromCodePoint(0x20 + i, 0x1f600 + (i % 50)))
  for (const shards of [1, 2, 7, 16_384]) {
    const found = await shardsOf(ids, shards)
    expect(Math.min(...found)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...found)).toBeLessThan(shards)
  }
})

test('the shard of an id stays the same: processes of any age agree on it', async () => {
  // Rows in existing databases have been placed by these.
  expect(await shardsOf(['order-1', 'order-2', 'é', '\u{1f600}'], 24)).toEqual(STABLE)
})

test('all jobs of an id stand in the shard of the function', async () => {
  const testQueue = await env.queue({ shards: 24 })
  const ids = Array.from({ length: 100 }, (_, i) => `id ${i}`)
  await testQueue.push(...ids.map((id) => ({ id })))
  const shards = await shardsOf(ids, 24)
  const rows = await env.query<{ id: string; shard: number }>(
    'SELECT j.id, j.shard FROM lockstep.jobs j WHERE j.queue_id = $1',
    [testQueue.queueId],
  )
  expect(rows).toHaveLength(100)
  for (const { id, shard } of rows) expect(shard).toBe(shards[ids.indexOf(id)])
})

const STABLE = [19, 20, 5, 6]
