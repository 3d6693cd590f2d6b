import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { trimLimits } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

/** Seconds. */
const PER = 100
/** Of the server, in seconds: every start is noted as of the end of such a second, and a microsecond. */
const NOW = 1_800_000_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** So many rounds of a queue begin, so many seconds before NOW. */
interface Starts {
  readonly age: number
  readonly rounds: number
}

const starts: fc.Arbitrary<Starts[]> = fc.array(
  fc.record({ age: fc.integer({ min: 0, max: 2 * PER }), rounds: fc.integer({ min: 1, max: 3 }) }),
  { maxLength: 12 },
)
const jobs = fc.integer({ min: 1, max: 12 })

/** Notes them in the order of time. */
async function begin(queueId: number, all: readonly Starts[], per = PER): Promise<void> {
  for (const { age, rounds } of all.toSorted((a, b) => b.age - a.age))
    await env.query(
      `SELECT lockstep.note_starts($1, $2, array_fill(''::text, ARRAY[$3::integer]), to_timestamp($4))`,
      [queueId, { rate: { jobs: 1, per } }, rounds, NOW - age],
    )
}

/** What claims reckon: how many count, and how many seconds after NOW the next one may begin. */
async function reckoned(queueId: number, most: number) {
  const [row] = await env.query<{ started: number; next: number }>(
    `SELECT lockstep.started($1, '', r.rate, to_timestamp($3)) AS started,
       round(extract(epoch FROM lockstep.next_start($1, '', r.rate, to_timestamp($3))) - $3)::integer AS next
     FROM (SELECT $2::jsonb AS rate) r`,
    [queueId, { jobs: most, per: PER }, NOW],
  )
  return row!
}

/** The same, one by one. A start that is exactly as old as the window still counts: it is noted a microsecond later. */
function expected(all: readonly Starts[], most: number) {
  const ages = all
    .flatMap(({ age, rounds }) => Array<number>(rounds).fill(age))
    .filter((age) => age <= PER)
    .sort((a, b) => a - b)
  const leaves = ages[Math.min(most, ages.length) - 1]
  return { started: ages.length, next: leaves === undefined ? PER : PER - leaves }
}

describe('R9 starts within the window of a rate, and when the next may begin', () => {
  test('are those that a count one by one would find, also when old ones have been trimmed', async () => {
    const property = fc.asyncProperty(starts, jobs, async (all, most) => {
      const { queueId } = await env.queue()
      await begin(queueId, all)
      expect(await reckoned(queueId, most)).toEqual(expected(all, most))
      await trim(queueId)
      expect(await reckoned(queueId, most)).toEqual(expected(all, most))
    })
    await fc.assert(property, { numRuns: Number(process.env.LOCKSTEP_MODEL_RUNS ?? 100) })
  }, 600_000)

  test('are in as many rows as hundredths of the window, however many have begun', async () => {
    const { queueId } = await env.queue()
    const all = Array.from({ length: 20 }, (_, n) => ({ age: n % 2, rounds: 2 }))
    await begin(queueId, all)
    const rows = await env.query('SELECT total FROM lockstep.starts WHERE queue_id = $1 ORDER BY at', [
      queueId,
    ])
    expect(rows).toEqual([{ total: 20 }, { total: 40 }])
  })
})

/** As a worker does some seconds before NOW. */
async function trim(queueId: number): Promise<void> {
  await replaceSetting(env.database, 'limits', [{ queueId, value: { rate: { jobs: 1, per: PER } } }])
  const seconds = Math.floor(Date.now() / 1_000) + 5 - NOW
  const shift = (by: number) =>
    env.query(`UPDATE lockstep.starts SET at = at + $2 * interval '1 s' WHERE queue_id = $1`, [queueId, by])
  await shift(seconds)
  await trimLimits(env.database)
  await shift(-seconds)
}
