import pg from 'pg'
import { expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { openStore } from '../support/store-environment.ts'
import { FUTURE } from './bury.ts'

/** Above 2^50, neighbouring numbers differ in the 16th digit, and fractions have up to 17 digits. */
const FIRST = 1_700_000_000_000_001
const SCORES = [
  -0.1 - 0.2,
  5e-324,
  0.3,
  0.1 + 0.2,
  ...Array.from({ length: 16 }, (_, n) => FIRST + n),
  1.7976931348623157e308,
]
const PAYLOADS = SCORES.map((_, place) => place)

/** A database whose sessions write doubles with few digits, and a pool of the application on it. */
async function open(digits: number) {
  const env = await openStore()
  const database = new URL(env.connectionString).pathname.slice(1)
  await env.query(`ALTER DATABASE ${database} SET extra_float_digits = ${digits}`)
  const pool = new pg.Pool({ connectionString: env.connectionString, max: 1 })
  const { rows } = await pool.query('SHOW extra_float_digits')
  expect(rows).toEqual([{ extra_float_digits: String(digits) }])
  const lockstep = new Lockstep({ pool })
  const { queue } = await env.queue()
  await lockstep.enqueue(
    queue,
    SCORES.map((score, payload) => ({ id: 'a', payload, score, performIn: new Date(FUTURE) })),
  )
  const close = async () => {
    await lockstep.close()
    await pool.end()
    await env.close()
  }
  const waiting = async () => (await lockstep.find(queue)).items.flatMap(({ payloads }) => payloads)
  const dead = async () => (await lockstep.findDead(queue, { by: 'score' })).items.map(({ score }) => score)
  return { pool, lockstep, queue, waiting, dead, close }
}

test.each([0, -15])(
  'scores keep their digits in administration where extra_float_digits is %i',
  async (digits) => {
    const { pool, lockstep, queue, waiting, dead, close } = await open(digits)
    try {
      const all = SCORES.map((score, payload) => ({ score, payload }))
      expect(await waiting()).toEqual(all)
      const { rows } = await pool.query('SELECT payloads FROM lockstep.waiting')
      expect(rows).toEqual([{ payloads: all }])
      const next = await pool.query(
        'SELECT lockstep.payloads_from(j.queue_id, j.id, 0) AS payloads FROM lockstep.jobs j',
      )
      // The first is carried by the job's row.
      expect(next.rows).toEqual([{ payloads: all.filter(({ payload }) => payload !== PAYLOADS[0]) }])

      await lockstep.kill(queue, {})
      expect(await dead()).toEqual(SCORES)
      for (const direction of ['asc', 'desc'] as const) {
        const seen: unknown[] = []
        let after: string | undefined
        do {
          const { items, next } = await lockstep.findDead(queue, { by: 'score', direction, limit: 3, after })
          seen.push(...items.map(({ payload }) => payload))
          after = next
        } while (after !== undefined && seen.length <= SCORES.length)
        expect(seen).toEqual(direction === 'asc' ? PAYLOADS : PAYLOADS.toReversed())
      }

      const gone = (await lockstep.findDead(queue, { by: 'score' })).items[7]!.score
      expect(await lockstep.deleteDead(queue, { score: { from: gone, to: gone } })).toEqual({
        done: 1,
        total: 1,
      })
      expect(await dead()).toEqual(SCORES.filter((score) => score !== SCORES[7]))
      for (const score of [0.1 + 0.2, FIRST]) {
        expect(await lockstep.requeue(queue, { score: { from: score, to: score } })).toEqual({
          done: 1,
          total: 1,
        })
      }
      expect((await waiting()).map(({ score }) => score)).toEqual([0.1 + 0.2, FIRST])
      expect(await dead()).toEqual(SCORES.filter((score) => ![0.1 + 0.2, FIRST, SCORES[7]].includes(score)))
    } finally {
      await close()
    }
  },
)
