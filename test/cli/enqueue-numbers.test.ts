import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { compact, elementsOf, hasNumbersToKeep, memberOf } from '../../src/json-text.ts'
import { storedPayloads } from '../support/stored-payloads.ts'
import { useWorkers } from '../support/worker-environment.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 60_000 })

const env = useWorkers()
let folder: string
let queues = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lockstep-cli-'))
})
afterAll(() => rm(folder, { recursive: true }))

/** The payloads that a file's rows became, as text, in push order. */
async function pushed(name: string, text: string, ...args: string[]) {
  const path = join(folder, name)
  await writeFile(path, text)
  const queue = `numbers ${++queues}`
  const ended = await runHere(['enqueue', queue, path, '--id', 'id', ...args], {
    DATABASE_URL: env.connectionString,
  })
  const rows = await env.sql<{ text: string }>(
    `SELECT payload::text AS text FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id)
     WHERE name = $1 ORDER BY seq`,
    [queue],
  )
  return { ...ended, payloads: rows.map((row) => row.text) }
}

const NUMBERS = ['12345678901234567890', '12345678901234567891', '1.0', '1', '9007199254740993', '0.10']

describe('R2: a number keeps the digits it was written with, and of two that differ none is dropped', () => {
  test('of NDJSON, where the whole row is the payload', async () => {
    const lines = NUMBERS.map((number) => `{ "id": "a", "v": [${number}], "t\\"\\\\": "a, [1.0]" }`)
    const { payloads } = await pushed('rows.ndjson', lines.join('\n'))
    expect(payloads).toEqual(NUMBERS.map((number) => `{"v": [${number}], "id": "a", "t\\"\\\\": "a, [1.0]"}`))
  })

  test('of a column of NDJSON, in an object, an array and alone', async () => {
    const shapes = (number: string) => [`{"w": ${number}}`, `[${number}, {"p": 1}]`, number]
    const lines = NUMBERS.flatMap(shapes).map(
      (json) => `{"x":{"p":0},"p":7,"id":"a","\\u0070":${json},"q":1}`,
    )
    const { payloads } = await pushed('column.ndjson', lines.join('\n'), '--payload', 'p')
    expect(payloads).toEqual(NUMBERS.flatMap(shapes))
  })

  test('of a column of CSV that is JSON', async () => {
    const lines = NUMBERS.map((number) => `a,"{""v"": ${number}}"`)
    const { payloads } = await pushed('column.csv', ['id,p', ...lines].join('\n'), '--payload', 'p')
    expect(payloads).toEqual(NUMBERS.map((number) => `{"v": ${number}}`))
  })

  test('shuffled, and however large it is', async () => {
    const { payloads, code } = await pushed('large.ndjson', '{"id":"a","v":1e400}', '--shuffle')
    expect(code).toBe(0)
    expect(payloads).toEqual([`{"v": 1${'0'.repeat(400)}, "id": "a"}`])
  })
})

test('text stays text: of NDJSON also what looks like JSON', async () => {
  const rows = '{"id":"a","p":"[1.0]","v":1.0}\n{"id":"a","p":"5"}'
  const { payloads } = await pushed('text.ndjson', rows, '--payload', 'p')
  expect(payloads).toEqual(['"[1.0]"', '"5"'])
})

describe('what Postgres has no room for is refused by line and column, and nothing is stored', () => {
  const beyond = ['1e131072', '-12.5e131071', '1e-16384', '0.001e-16381', '1.0e9999999999', '0e-16384']
  test.each(beyond)('%s', async (number) => {
    const rows = `{"id":"a","p":1}\n{"id":"b","p":[${number}]}`
    const { code, stderr, payloads } = await pushed('beyond.ndjson', rows, '--payload', 'p')
    expect(stderr).toContain(`line 2, column "p": payload has the number ${number}, which Postgres’ jsonb`)
    expect(stderr).toContain('Nothing was stored.')
    expect(code).toBe(1)
    expect(payloads).toEqual([])
  })

  test.each([
    ['as many digits as fit', '1e131071'],
    ['as many behind a zero', '0.1e131072'],
    ['as many behind the point', '1e-16383'],
    ['a zero before them', '0.1e-16382'],
    ['a zero with an exponent', '0e999999'],
    ['digits that the exponent moves before the point', `1.${'1'.repeat(20_000)}e20000`],
  ])('and what it has room for is not: %s', async (_, number) => {
    const { code } = await pushed('within.ndjson', `{"id":"a","v":${number}}`)
    expect(code).toBe(0)
  })

  test('a text beyond 8 MiB, whose value is smaller', async () => {
    const zeros = '0'.repeat(8 * 1024 * 1024)
    const { stderr } = await pushed('bytes.ndjson', `{"id":"a"}\n{"id":"b","v":1.${zeros}}`)
    expect(stderr).toMatch(/line 2: payload must be at most 8 MiB, not 8388\d{3} bytes/)
  })

  test('a text that Postgres writes beyond its limit', async () => {
    const numbers = Array.from({ length: 100 }, () => '1e131071').join()
    const { stderr } = await pushed('digits.ndjson', `{"id":"b"}\n{"id":"a","v":[${numbers}]}`)
    expect(stderr).toMatch(/line 2: payload must be at most 8 MiB/)
  })
})

test('JSON is taken apart into what it was, however long its text is', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.integer({ min: 0, max: 3 }),
      (object, indent) => {
        const text = JSON.stringify(object, null, indent)
        expect(compact(text)).toBe(JSON.stringify(object))
        for (const [key, value] of Object.entries(object))
          expect(memberOf(text, key)).toBe(JSON.stringify(value))
        const values = Object.values(object)
        const list = JSON.stringify(values, null, indent)
        expect(elementsOf(list).map(compact)).toEqual(values.map((value) => JSON.stringify(value)))
      },
    ),
  )
  const long = JSON.stringify({ a: '\\"'.repeat(10_000_000), b: [1] })
  expect(compact(long)).toBe(long)
  expect(memberOf(long, 'b')).toBe('[1]')
})

test('a closer look is for numbers alone that JavaScript writes in another way', () => {
  for (const json of ['{"a":12.5,"b":-7,"c":[0]}', '"2011-10-11T13:45:40.276Z"', '1e-7', '"no 1. or .5"'])
    expect(hasNumbersToKeep(json), json).toBe(false)
  for (const json of [...NUMBERS.filter((number) => number !== '1'), '1e400', '-0', '1E5'])
    expect(hasNumbersToKeep(json), json).toBe(true)
})
