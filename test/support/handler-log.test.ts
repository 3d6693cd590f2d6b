import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { append, read, runsOf } from './handler-log.ts'

const round = (process: string, fence: number) => ({ process, queue: 'q', id: 'a', fence })

test('the log of handlers keeps what several writers add, and puts together what belongs to a round', () => {
  const directory = mkdtempSync(join(tmpdir(), 'lockstep-log-'))
  const file = join(directory, 'log')
  const late = 2n ** 60n + 1n
  try {
    expect(read(file)).toEqual([])
    append(file, [{ ...round('p', 2), kind: 'begin', at: late, payloads: [1] }])
    append(file, [{ ...round('q', 1), kind: 'begin', at: 1n, payloads: [1] }])
    append(file, [{ ...round('p', 2), kind: 'end', at: late + 1n, returned: true }])
    append(file, [{ ...round('p', 2), kind: 'accepted', at: late + 2n }])
    append(file, [{ ...round('q', 1), kind: 'refused', at: late + 3n }])
    expect(runsOf(read(file))).toEqual([
      { ...round('q', 1), payloads: [1], begin: 1n, end: undefined, returned: false, accepted: false },
      { ...round('p', 2), payloads: [1], begin: late, end: late + 1n, returned: true, accepted: true },
    ])
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('an end without a begin is a mistake of the log', () => {
  expect(() => runsOf([{ ...round('p', 1), kind: 'accepted', at: 1n }])).toThrow('no begin')
})
