import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { PerformContext } from '../../src/index.ts'
import { WorkerEmitter } from '../../src/worker/events.ts'
import { Diary } from './diary.ts'
import { read, readRuns } from './handler-log.ts'

let directory: string
let log: string
let worker: WorkerEmitter
let diary: Diary

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'lockstep-diary-'))
  log = join(directory, 'log')
  worker = new WorkerEmitter()
  diary = new Diary('p', log)
  diary.hear(worker)
})
afterEach(() => rmSync(directory, { recursive: true }))

/** A handler gets a round of the id. It returns, throws, or does the given work. */
async function round(fence: number, work: (context: PerformContext) => unknown = () => {}): Promise<void> {
  const handler = diary.around('q', async (_, context: PerformContext) => void (await work(context)))
  const jobs = new Map([['a', { fence }]])
  const context = { jobs, fail() {} } as unknown as PerformContext
  await handler(new Map([['a', [fence]]]), context).catch(() => {})
}

const fail = () => {
  throw new Error('failed')
}
const completed = () =>
  worker.emit('completed', { queue: 'q', shard: 0, slot: 0, ids: ['a'], duration: 1 }) as unknown
const refused = () => worker.emit('refused', { queue: 'q', id: 'a' })
const accepted = () =>
  readRuns(log)
    .filter((run) => run.accepted)
    .map(({ fence }) => fence)

test('a completion belongs to the round that returned', async () => {
  await round(1, fail)
  await round(2)
  completed()
  expect(readRuns(log)).toMatchObject([
    { fence: 1, returned: false, accepted: false, payloads: [1] },
    { fence: 2, returned: true, accepted: true, queue: 'q', process: 'p' },
  ])
})

test('a run knows when its worker was about to look at the lease for the last time, unless anything has waited since', async () => {
  const handler = diary.around('q', async () => {})
  const context = { jobs: new Map([['a', { fence: 1 }]]), fail() {} } as unknown as PerformContext
  const batch = new Map([['a', [1]]])
  await diary.asking({ queue: undefined as never, batch, context }, () => handler(batch, context))
  await diary.asking({ queue: undefined as never, batch, context }, async () => {
    await undefined
    await handler(batch, context)
  })
  await round(2)
  const [first, ...others] = readRuns(log)
  expect(first!.asked).toBeLessThanOrEqual(first!.begin)
  expect(others.map(({ asked }) => asked)).toEqual([undefined, undefined])
})

test('an id that the handler fails alone has not returned', async () => {
  await round(1, (context) => context.fail('a', new Error('this one')))
  expect(readRuns(log)).toMatchObject([{ returned: false }])
})

test('P6: a completion while the id’s next round is in work is that of the one before', async () => {
  await round(1)
  await round(2, () => completed())
  expect(accepted()).toEqual([1])
  completed()
  expect(accepted()).toEqual([1, 2])
})

test('a round that the worker never spoke of, since its lease was lost, is not completed by the next', async () => {
  await round(1)
  await round(2)
  completed()
  expect(accepted()).toEqual([2])
})

test('a completion of what no handler had is empty, also after a round that failed', async () => {
  completed()
  await round(1, fail)
  completed()
  expect(read(log).filter(({ kind }) => kind === 'empty')).toHaveLength(2)
  expect(accepted()).toEqual([])
})

test('a round that returned and still failed, past its timeout, is not completed by another', async () => {
  await round(1)
  worker.emit('failed', { queue: 'q', id: 'a', error: undefined, retryCount: 0, retryIn: 1 })
  completed()
  expect(accepted()).toEqual([])
})

test('a refusal belongs to the newest round that has ended; of one that no handler had, nothing is said', async () => {
  refused()
  await round(1)
  await round(2, () => refused())
  expect(readRuns(log)).toMatchObject([{ refused: true }, { refused: false }])
  expect(read(log).filter(({ kind }) => kind === 'refused')).toHaveLength(1)
})
