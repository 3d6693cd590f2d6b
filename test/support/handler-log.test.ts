import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { append, type Entry, read, readRuns, runsOf } from './handler-log.ts'

const directory = mkdtempSync(join(tmpdir(), 'lockstep-log-'))
let logs = 0

function newLog(): string {
  logs += 1
  return join(directory, `log ${logs}`)
}

afterAll(() => rmSync(directory, { recursive: true }))

const round = (process: string, fence: number) => ({ process, queue: 'q', id: 'a', fence })
const begin = (process: string, fence: number, at = 1n): Entry => ({
  ...round(process, fence),
  kind: 'begin',
  at,
  payloads: [1],
})

test('the log of handlers keeps what several writers add, and puts together what belongs to a round', () => {
  const file = newLog()
  const late = 2n ** 60n + 1n
  expect(read(file)).toEqual([])
  append(file, [begin('p', 2, late)])
  append(file, [begin('q', 1)])
  append(file, [{ ...round('p', 2), kind: 'end', at: late + 1n, returned: true }])
  append(file, [{ ...round('p', 2), kind: 'accepted', at: late + 2n }])
  append(file, [{ ...round('q', 1), kind: 'refused', at: late + 3n }])
  append(file, [{ process: 'q', queue: 'q', id: 'b', kind: 'empty', at: late + 4n }])
  const open = { payloads: [1], end: undefined, returned: false, accepted: false, refused: false }
  expect(readRuns(file)).toEqual([
    { ...round('q', 1), ...open, begin: 1n, refused: true },
    { ...round('p', 2), ...open, begin: late, end: late + 1n, returned: true, accepted: true },
  ])
  expect(runsOf(read(file))).toEqual(readRuns(file))
})

test('a last line that its process did not finish is none; any other is a mistake of the log', () => {
  const file = newLog()
  append(file, [begin('p', 1)])
  appendFileSync(file, '{"process":"p","queue":"q","id":"ä')
  expect(readRuns(file)).toHaveLength(1)
  append(file, [begin('q', 2)])
  expect(() => readRuns(file)).toThrow('line 2 of the log is broken: {"process":"p"')
  writeFileSync(file, '{"process":"p"}\n')
  expect(() => readRuns(file)).toThrow('line 1 of the log is broken')
})

test('a log is read in pieces, wherever they end', () => {
  const file = newLog()
  // Letters of two bytes, in lines of a length that does not divide a piece, and one line longer than a piece.
  const payload = 'äß'.repeat(1_001)
  const entries = Array.from({ length: 1_000 }, (_, fence): Entry => {
    return { ...round('p', fence), kind: 'begin', at: BigInt(fence), payloads: [payload.slice(fence)] }
  })
  const long: Entry = { ...round('p', 1_000), kind: 'begin', at: 1_000n, payloads: ['ä'.repeat(2 ** 21)] }
  append(file, [...entries, long, begin('p', 1_001, 1_001n)])
  expect(read(file)).toEqual([...entries, long, begin('p', 1_001, 1_001n)])
})

test('an end without a begin is a mistake of the log', () => {
  expect(() => runsOf([{ ...round('p', 1), kind: 'accepted', at: 1n }])).toThrow('no begin')
  expect(() => runsOf([begin('p', 1), { ...round('q', 1), kind: 'end', at: 2n, returned: true }])).toThrow(
    'no begin',
  )
})

test('what names a round does not run together', () => {
  const runs = runsOf([
    { ...begin('p', 1), queue: 'q', id: 'a b' },
    { ...begin('p', 1), queue: 'q a', id: 'b' },
    { ...round('p', 1), queue: 'q', id: 'a b', kind: 'accepted', at: 2n },
  ])
  expect(runs.filter(({ accepted }) => accepted)).toMatchObject([{ queue: 'q', id: 'a b' }])
})

test('a fence that was given out twice is two runs', () => {
  expect(runsOf([begin('p', 1), begin('p', 1, 2n)])).toHaveLength(2)
})
