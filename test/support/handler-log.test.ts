import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { append, inversions, lost, overlaps, type Run, read, repeats, runsOf } from './handler-log.ts'

const order = (payload: unknown) => payload as number

function run(id: string, begin: number, end: number | undefined, payloads: number[], process = 'p'): Run {
  const returned = end !== undefined
  return { id, process, payloads, begin: BigInt(begin), end: returned ? BigInt(end) : undefined, returned }
}

const failed = (of: Run): Run => ({ ...of, returned: false })

describe('the log of handlers', () => {
  test('keeps what several writers add, and puts begins and ends together', () => {
    const directory = mkdtempSync(join(tmpdir(), 'lockstep-log-'))
    const file = join(directory, 'log')
    try {
      const entry = { process: 'p', run: 1, id: 'a', payloads: [1] }
      expect(read(file)).toEqual([])
      append(file, [{ ...entry, kind: 'begin', at: 2n ** 60n + 1n, returned: false }])
      append(file, [{ ...entry, process: 'q', kind: 'begin', at: 1n, returned: false }])
      append(file, [{ ...entry, kind: 'end', at: 2n ** 60n + 2n, returned: true }])
      expect(runsOf(read(file))).toEqual([
        { id: 'a', process: 'q', payloads: [1], begin: 1n, end: undefined, returned: false },
        { id: 'a', process: 'p', payloads: [1], begin: 2n ** 60n + 1n, end: 2n ** 60n + 2n, returned: true },
      ])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  test('shows two runs of one id at the same time, and no others', () => {
    const first = run('a', 1, 5, [1])
    const second = run('a', 4, 6, [2])
    expect(overlaps([first, second])).toEqual([[first, second]])
    expect(overlaps([first, run('b', 4, 6, [2])])).toEqual([])
    expect(overlaps([first, run('a', 5, 6, [2])])).toEqual([])
  })

  test('shows a run inside a longer one that is not the last before it', () => {
    const long = run('a', 1, 10, [1])
    const late = run('a', 8, 9, [3])
    expect(overlaps([long, run('a', 2, 3, [2]), late])).toHaveLength(2)
    expect(overlaps([long, run('a', 2, 3, [2]), late])[1]).toEqual([long, late])
  })

  test('lets a run without an end last until its process died', () => {
    const killed = run('a', 1, undefined, [1])
    const after = run('a', 4, 6, [1], 'q')
    expect(overlaps([killed, after])).toHaveLength(1)
    expect(overlaps([killed, after], new Map([['p', 5n]]))).toHaveLength(1)
    expect(overlaps([killed, after], new Map([['p', 3n]]))).toEqual([])
  })

  test('shows payloads out of order in a batch and across batches; a retry is none', () => {
    expect(inversions([run('a', 1, 2, [1, 3, 2])], order)).toEqual(['a: 2 after 3'])
    expect(inversions([run('a', 1, 2, [3]), run('a', 3, 4, [2])], order)).toEqual(['a: 2 after 3'])
    expect(inversions([run('a', 1, 2, [3]), run('b', 3, 4, [2])], order)).toEqual([])
    expect(inversions([failed(run('a', 1, 2, [2, 3])), run('a', 3, 4, [1, 2, 3])], order)).toEqual([])
    expect(inversions([run('a', 1, 2, [2, 2]), run('a', 3, 4, [2, 3])], order)).toEqual([])
  })

  test('shows what no handler that returned has had', () => {
    const pushed = new Map([['a', [1, 2]]])
    expect(lost([run('a', 1, 2, [1])], pushed)).toEqual(['a: 2'])
    expect(lost([failed(run('a', 1, 2, [1, 2]))], pushed)).toEqual(['a: 1', 'a: 2'])
    expect(lost([run('b', 1, 2, [1, 2])], pushed)).toHaveLength(2)
    expect(lost([run('a', 1, 2, [1]), run('a', 3, 4, [2])], pushed)).toEqual([])
  })

  test('shows what two handlers had and returned', () => {
    expect(repeats([run('a', 1, 2, [1, 2]), run('a', 3, 4, [2])])).toEqual(['a: 2'])
    expect(repeats([failed(run('a', 1, 2, [1])), run('a', 3, 4, [1])])).toEqual([])
  })
})
