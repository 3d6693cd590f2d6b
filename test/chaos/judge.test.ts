import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster, SMALL } from './cluster.ts'
import { complaints, judge } from './judge.ts'
import { readTruth } from './truth.ts'

const DEADLINE = 120_000

let cluster: Cluster

beforeAll(async () => {
  cluster = await Cluster.open({ workers: 2, producers: 1, scale: SMALL })
}, DEADLINE)
afterAll(() => cluster?.close())

/** What a cluster would show with a fault planted in the product or beside it. */
test('the judge sees what was lost, applied twice, never pushed, and left behind', async () => {
  await cluster.probe()
  const truth = await cluster.settle()
  expect(complaints(judge(cluster, truth))).toEqual([])

  const [first] = truth.sent.filter(({ queue }) => queue === 'exact')
  const stranger = { queue: 'plain', id: 'nobody', n: 1 }
  const told = (change: Partial<typeof truth>) =>
    complaints(judge(cluster, { ...truth, ...change })).join('\n')
  expect(told({ sent: [...truth.sent, { ...stranger, at: 1n }] })).toContain('lost: nobody')
  expect(told({ sent: truth.sent.slice(1) })).toContain('was never pushed')
  expect(told({ acknowledged: [...truth.acknowledged, stranger] })).toContain('acknowledged, not stored')
  expect(told({ applied: [...truth.applied, first!] })).toContain('applied 2 times')
  expect(told({ applied: truth.applied.slice(1) })).toContain('applied 0 times')
  expect(told({ applied: [...truth.applied, { ...first!, n: first!.n - 1 }] })).toContain('applied after')
  expect(told({ dead: [stranger] })).toContain('nobody died')
  expect(told({ leftovers: { jobs: 1, payloads: 0 } })).toContain('left behind')
})

test('the judge sees a process that an error ended which nobody caught', async () => {
  const planted = 'process.on("SIGUSR2", () => { throw new Error("planted") })'
  const { connectionString } = cluster.server
  const worker = cluster.createWorker(connectionString, {}, ['--import', `data:text/javascript,${planted}`])
  await worker.ready()
  worker.signal('SIGUSR2')
  await worker.ended
  expect(complaints(judge(cluster, await readTruth(cluster))).join('\n')).toContain('planted')
})
