import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { Connection, type Delivery, Diary, drained, Ground, LEASE, perhapsLeaving } from '../faults.ts'
import type { Answered } from '../lmstfy/wire.ts'

vi.setConfig({ testTimeout: 300_000 })

/** R8: a job is tried again 25 times. */
const TRIES = 26
/** The part of jobs that everybody fails with. */
const POISONOUS = 0.02
const QUEUE = 'faults'

interface Claimed {
  readonly id: string
  readonly fence: string
  readonly retry_count: number
  readonly payloads: readonly { readonly payload: { readonly isPoisonous: boolean } }[]
}

/** How a client ends a claim. */
type Way = 'complete' | 'fail' | 'release' | 'extend' | 'forget'

const WAYS: readonly Way[] = [
  ...Array<Way>(12).fill('complete'),
  ...(['fail', 'fail', 'release', 'release', 'extend', 'extend', 'forget', 'forget'] as const),
]

class Client {
  readonly #connection: Connection
  readonly #diary: Diary
  readonly #poison: Set<string>

  constructor(connection: Connection, diary: Diary, poison: Set<string>) {
    this.#connection = connection
    this.#diary = diary
    this.#poison = poison
  }

  /** Sends a push again until it is answered. */
  async produce(): Promise<void> {
    const id = randomUUID()
    const isPoisonous = Math.random() < POISONOUS
    const push = () =>
      this.#post(`/queues/${QUEUE}/jobs`, { id, payload: { isPoisonous } }, { 'idempotency-key': id })
    while ((await push())?.status !== 200) await sleep(20)
    this.#diary.published.add(id)
    if (isPoisonous) this.#poison.add(id)
  }

  /** Completes most jobs, or ends them in another way, forgets some, and sometimes goes away while it waits. */
  async consume(): Promise<void> {
    const askedAt = performance.now()
    const answer = await perhapsLeaving(this.#diary, (signal) => this.#claim(1, signal))
    if (answer?.status !== 200) return
    for (const claim of answer.json.jobs as Claimed[]) {
      const delivery = this.#diary.delivered(claim.id, askedAt)
      await this.#end(claim, delivery, WAYS[Math.floor(Math.random() * WAYS.length)]!)
    }
  }

  /** Resolves to how many it has got, if it was answered. */
  async take(): Promise<number | undefined> {
    const askedAt = performance.now()
    const answer = await this.#claim(20)
    if (answer?.status !== 200) return undefined
    const claims = answer.json.jobs as Claimed[]
    for (const claim of claims) await this.#end(claim, this.#diary.delivered(claim.id, askedAt), 'complete')
    return claims.length
  }

  #claim(count: number, signal?: AbortSignal): Promise<Answered | undefined> {
    return this.#post('/claim', { queues: QUEUE, lease: LEASE, wait: 1, count }, {}, signal)
  }

  async #end(claim: Claimed, delivery: Delivery, way: Way): Promise<void> {
    expect(claim.retry_count).toBeLessThan(TRIES - 1)
    const { isPoisonous } = claim.payloads[0]!.payload
    if (isPoisonous) return this.#fail(claim, delivery)
    if (way === 'forget') return
    await sleep(Math.random() * 20)
    if (way === 'extend') await this.#extend(claim, delivery)
    if (way === 'fail') return this.#fail(claim, delivery)
    delivery.to = Math.min(delivery.to, performance.now())
    if (way === 'release') delivery.isReleased = await this.#settle('release', claim)
    else if (await this.#settle('complete', claim)) this.#diary.done.set(claim.id, performance.now())
  }

  async #fail(claim: Claimed, delivery: Delivery): Promise<void> {
    delivery.to = Math.min(delivery.to, performance.now())
    await this.#settle('fail', claim, { error: 'as it should', retry_in: 0 })
  }

  async #extend(claim: Claimed, delivery: Delivery): Promise<void> {
    const askedAt = performance.now()
    if (await this.#settle('extend', claim, { lease: LEASE })) delivery.to = askedAt + LEASE * 1000
    await sleep(Math.random() * 20)
  }

  /** Whether the claim was held, as far as anybody has said so. */
  async #settle(how: string, { id, fence }: Claimed, more: object = {}): Promise<boolean> {
    const answer = await this.#post(`/${how}`, { queue: QUEUE, id, fence, ...more })
    return answer?.status === 200 && answer.json.held
  }

  #post(path: string, body: object, headers: Record<string, string> = {}, signal?: AbortSignal) {
    const type = { 'content-type': 'application/json' }
    const sending = {
      body: JSON.stringify(body),
      headers: { ...type, ...headers },
      ...(signal && { signal }),
    }
    return this.#connection.call('POST', `/v1${path}`, sending)
  }
}

test('two gateways, either killed again and again, and a database that restarts: nothing lost, nothing twice', async () => {
  const ground = await Ground.open()
  const diary = new Diary()
  const poison = new Set<string>()
  const scopes = ['produce', 'consume'] as const
  const { token } = await ground.lockstep.createToken({ name: 'faults', scopes })
  const connections: Connection[] = []
  const clientOf = () => {
    const connection = new Connection(ground.ports, { authorization: `Bearer ${token}` })
    connections.push(connection)
    return new Client(connection, diary, poison)
  }
  await ground.run(clientOf)
  const last = clientOf()
  await drained(() => last.take())
  const dead = await ground.deadIn(QUEUE)
  const { items } = await ground.lockstep.find(QUEUE, {})
  for (const connection of connections) connection.close()
  await ground.close()
  diary.judge(dead, TRIES)
  diary.expectMuch()
  expect(items).toEqual([])
  expect([...dead].sort()).toEqual([...poison].sort())
  expect(poison.size).toBeGreaterThan(0)
})
