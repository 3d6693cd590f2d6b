import { copyFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { append } from '../support/handler-log.ts'
import { Cluster } from './cluster.ts'
import { complaints, judge, type Scene } from './judge.ts'
import { SMALL } from './scale.ts'
import { STARVED } from './tenancy.ts'
import { readTruth, type Truth } from './truth.ts'

const DEADLINE = 120_000
const HALF_A_SECOND = 500_000_000n

let cluster: Cluster
let truth: Truth

beforeAll(async () => {
  cluster = await Cluster.open({ workers: 2, producers: 1, scale: SMALL })
  await cluster.probe()
  truth = await cluster.settle()
}, DEADLINE)
afterAll(() => cluster?.close())

const told = (change: Partial<Truth>, scene: Scene = cluster) =>
  complaints(judge(scene, { ...truth, ...change })).join('\n')

/** A run of an id, in ns. */
interface Planted {
  readonly id: string
  readonly from: bigint
  readonly to: bigint
}

/** The cluster, with further runs in the log of handlers. */
function withRuns(queue: string, runs: readonly Planted[]): Scene {
  const { queues, allWorkers, allProducers, freezes, poisoned } = cluster
  const log = `${cluster.log}.planted`
  copyFileSync(cluster.log, log)
  for (const [fence, { id, from, to }] of runs.entries()) {
    const run = { process: 'planted', queue, id, fence }
    append(log, [
      { ...run, kind: 'begin', at: from, payloads: [1] },
      { ...run, kind: 'end', at: to, returned: true },
    ])
  }
  return { log, queues, allWorkers, allProducers, freezes, poisoned }
}

/** What a cluster would show with a fault planted in the product or beside it. */
test('the judge sees what was lost, applied twice, never pushed, and left behind', () => {
  expect(told({})).toBe('')

  const [first] = truth.sent.filter(({ queue }) => queue === 'exact')
  const stranger = { queue: 'plain', id: 'nobody', n: 1 }
  expect(told({ sent: [...truth.sent, { ...stranger, at: 1n }] })).toContain('lost: nobody')
  expect(told({ sent: truth.sent.slice(1) })).toContain('was never pushed')
  expect(told({ acknowledged: [...truth.acknowledged, stranger] })).toContain('acknowledged, not stored')
  expect(told({ applied: [...truth.applied, first!] })).toContain('applied 2 times')
  expect(told({ applied: truth.applied.slice(1) })).toContain('applied 0 times')
  expect(told({ applied: [...truth.applied, { ...first!, n: first!.n - 1 }] })).toContain('applied after')
  expect(told({ dead: [stranger] })).toContain('nobody died')
  expect(told({ leftovers: { jobs: 1, payloads: 0 } })).toContain('left behind')
})

test('tenants have lanes of their own, rules send some to others, and every claim is written down', () => {
  const lanes = (name: string, of: (tenant: string | null) => boolean) => {
    const mine = truth.claims.filter(({ queue, tenant }) => queue === name && of(tenant))
    return new Set(mine.map(({ lane }) => lane))
  }
  const someones = (tenant: string | null) => tenant !== null
  expect([...lanes('shared', someones)].filter((lane) => lane < 0)).toHaveLength(3)
  expect(lanes('ruled', someones)).toContain(1)
  expect(lanes('limited', (tenant) => tenant === null)).toEqual(new Set([0]))
  const claimed = new Set(truth.claims.map(({ queue, id }) => `${queue} ${id}`))
  const pushed = truth.sent.filter(({ queue }) => ['shared', 'ruled', 'limited'].includes(queue))
  expect(pushed.filter(({ queue, id }) => !claimed.has(`${queue} ${id}`))).toEqual([])
})

test('the judge sees more claims within a time than limits allow, and those of a wrong tenant', () => {
  const claim = truth.claims.find(({ queue, tenant }) => queue === 'limited' && tenant === 'c')!
  const times = (count: number, one = claim) => Array.from({ length: count }, () => one)
  expect(told({ claims: times(15) })).toBe('')
  expect(told({ claims: times(16) })).toMatch(/^over a limit: .* limit of tenant c: 16 claims within 0 s/)
  const everyones = [
    ...times(11),
    ...times(10, { ...claim, id: 'x-1', tenant: 'a' }),
    ...times(10, { ...claim, id: 'x-0', tenant: null }),
  ]
  expect(told({ claims: everyones })).toMatch(/^over a limit: .* limit of the queue: 31 claims within 0 s/)
  expect(told({ claims: everyones.slice(1) })).toBe('')
  expect(told({ claims: [{ ...claim, tenant: 'b' }] })).toContain('claimed as a job of b')
})

test('the judge sees more runs at once than limits allow', () => {
  const now = process.hrtime.bigint()
  const atOnce = (...ids: string[]) =>
    told(
      {},
      withRuns(
        'limited',
        ids.map((id) => ({ id, from: now, to: now + HALF_A_SECOND })),
      ),
    )
  const over = (whose: string) => expect.stringContaining(`limit of ${whose}: began beside`)
  expect(atOnce('x-0', 'x-5', 'x-1', 'x-2', 'x-3')).not.toEqual(expect.stringContaining('over a limit'))
  expect(atOnce('x-0', 'x-5', 'x-1', 'x-2', 'x-3', 'x-10')).toEqual(over('the queue'))
  expect(atOnce('x-3', 'x-4')).not.toEqual(expect.stringContaining('over a limit'))
  expect(atOnce('x-3', 'x-4', 'x-8')).toEqual(over('tenant c'))
})

test.each([
  ['shared', 'tenant a'],
  ['limited', 'tenant a'],
  ['ruled', 'lane 1'],
])('the judge sees who waits in the queue %s while others have their turn', (queue, who) => {
  const now = process.hrtime.bigint()
  const waiting = (halves: number) => {
    const end = now + BigInt(halves) * HALF_A_SECOND
    const runs = Array.from({ length: halves }, (_, n): Planted => {
      const from = now + BigInt(n) * HALF_A_SECOND
      return { id: `x-${5 * n + 2}`, from, to: from + HALF_A_SECOND / 2n }
    })
    runs.push({ id: 'x-1', from: end, to: end + 1n })
    const claims = runs.map(({ id, from }, fence) => {
      const [tenant, lane] = id === 'x-1' ? (['a', 1] as const) : (['b', 0] as const)
      return { queue, id, tenant, lane, fence, at: from }
    })
    const sent = [...truth.sent, { queue, id: 'x-1', n: 1, at: now }]
    return told({ sent, claims }, withRuns(queue, runs))
  }
  expect(waiting(2 * STARVED + 2)).toContain(`starved: ${who} of ${queue}: waited`)
  expect(waiting(2 * STARVED - 4)).not.toContain('starved')
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
