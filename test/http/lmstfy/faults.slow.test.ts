import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { freePort, startEmbeddedPostgres } from '../../../src/postgres/embedded.ts'
import { Command } from '../../cli/command.ts'
import { type Answered, send } from './wire.ts'

vi.setConfig({ testTimeout: 300_000 })

const CLIENTS = 16
const TRIES = 4
/** Seconds. */
const TTR = 2
/** ms of the run, and what clocks and answers on their way may take. */
const RUN = 60_000
const SLACK = 250

interface Delivery {
  readonly id: string
  readonly from: number
  /** When the client let go of it, or its ttr was over. */
  to: number
}

/** What clients saw. */
class Diary {
  readonly published = new Set<string>()
  /** When the answers to acknowledgements in time came. */
  readonly acknowledged = new Map<string, number>()
  readonly deliveries: Delivery[] = []
  left = 0

  delivered(id: string, askedAt: number): Delivery {
    // The ttr began after the request came, and before its answer.
    const delivery = { id, from: performance.now(), to: askedAt + TTR * 1000 }
    this.deliveries.push(delivery)
    return delivery
  }

  byJob(): Delivery[][] {
    const jobs = new Map<string, Delivery[]>()
    for (const delivery of this.deliveries)
      jobs.set(delivery.id, [...(jobs.get(delivery.id) ?? []), delivery])
    return [...jobs.values()]
  }

  /** Deliveries of jobs that had been acknowledged in time. */
  again(): Delivery[] {
    return this.deliveries.filter(({ id, from }) => from > (this.acknowledged.get(id) ?? Infinity))
  }

  /** Pairs of deliveries of one job that were held side by side. */
  overlaps(): Delivery[][] {
    return this.byJob().flatMap((all) => {
      const sorted = all.sort((a, b) => a.from - b.from)
      return sorted.flatMap((one, index) => {
        const next = sorted[index + 1]
        return next && next.from < one.to - SLACK ? [[one, next]] : []
      })
    })
  }
}

class Client {
  readonly #ports: readonly number[]
  readonly #token: string
  readonly #diary: Diary
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 })

  constructor(ports: readonly number[], token: string, diary: Diary) {
    this.#ports = ports
    this.#token = token
    this.#diary = diary
  }

  /** A gateway may be gone: undefined. */
  async call(
    method: string,
    path: string,
    sending: { body?: string; signal?: AbortSignal } = {},
  ): Promise<Answered | undefined> {
    const port = this.#ports[Math.floor(Math.random() * this.#ports.length)]!
    const headers = { 'x-token': this.#token }
    try {
      return await send(port, method, `/api/ns/faults${path}`, { ...sending, headers, agent: this.#agent })
    } catch {
      await sleep(50)
      return undefined
    }
  }

  async publish(): Promise<void> {
    const answer = await this.call('PUT', `?tries=${TRIES}&ttl=0`, { body: 'x' })
    if (answer?.status === 201) this.#diary.published.add(answer.json.job_id)
    else await sleep(20)
  }

  /** Acknowledges most jobs, forgets some, and sometimes goes away while it waits. */
  async consume(): Promise<void> {
    const leaving = new AbortController()
    const leaves = Math.random() < 0.2
    const timer = leaves ? setTimeout(() => leaving.abort(), Math.random() * 100) : undefined
    const askedAt = performance.now()
    const answer = await this.call('GET', `?ttr=${TTR}&timeout=1`, { signal: leaving.signal })
    clearTimeout(timer)
    if (!answer && leaves) this.#diary.left += 1
    if (answer?.status !== 200) return
    const delivery = this.#diary.delivered(answer.json.job_id, askedAt)
    if (Math.random() < 0.1) return
    await sleep(Math.random() * 20)
    delivery.to = Math.min(delivery.to, performance.now())
    const acknowledged = await this.call('DELETE', `/job/${delivery.id}`)
    const now = performance.now()
    if (acknowledged?.status === 204 && now < askedAt + TTR * 1000)
      this.#diary.acknowledged.set(delivery.id, now)
  }

  /** Consumes and acknowledges until nothing is left, also what comes again. */
  async drain(): Promise<void> {
    for (let empty = 0; empty < TTR + 3; ) {
      const askedAt = performance.now()
      const answer = await this.call('GET', `?ttr=${TTR}&timeout=1&count=20`)
      if (answer?.status === 404) empty += 1
      if (answer?.status !== 200) continue
      empty = 0
      for (const { job_id } of answer.json) {
        this.#diary.delivered(job_id, askedAt)
        await this.call('DELETE', `/job/${job_id}`)
      }
    }
  }

  stop(): void {
    this.#agent.destroy()
  }
}

test('two gateways, one killed again and again, and a database that restarts: nothing lost, nothing twice', async () => {
  const server = await startEmbeddedPostgres()
  const lockstep = new Lockstep({ connectionString: server.connectionString })
  await lockstep.migrate()
  const [ports, adminPorts] = [
    await Promise.all([freePort(), freePort()]),
    await Promise.all([freePort(), freePort()]),
  ]
  const start = (place: number) => {
    const args = ['serve', '--json', '--port', `${ports[place]}`, '--admin-port', `${adminPorts[place]}`]
    return new Command(args, { env: { DATABASE_URL: server.connectionString } })
  }
  const gateways = [start(0), start(1)] as [Command, Command]
  await Promise.all(gateways.map((gateway) => gateway.line((one) => 'url' in one)))
  const { json } = await send(adminPorts[0]!, 'POST', '/token/ns?description=x')
  const diary = new Diary()
  const clients = Array.from({ length: CLIENTS }, () => new Client(ports, json.token, diary))
  const until = performance.now() + RUN
  const running = clients.map(async (client, index) => {
    while (performance.now() < until) await (index % 4 === 0 ? client.publish() : client.consume())
  })
  const faults = async () => {
    for (let round = 0; performance.now() < until - 10_000; round += 1) {
      await sleep(4_000)
      if (round % 3 === 2) {
        await server.restart()
        continue
      }
      gateways[0].child.kill('SIGKILL')
      await gateways[0].ended
      gateways[0] = start(0)
      await gateways[0].line((one) => 'url' in one)
    }
  }
  await Promise.all([...running, faults()])
  await clients[0]!.drain()
  for (const client of clients) client.stop()
  const dead = await deadIds(lockstep)
  for (const gateway of gateways) gateway.child.kill('SIGTERM')
  await Promise.all(gateways.map(({ ended }) => ended))
  await lockstep.close()
  await server.stop()

  const delivered = new Set(diary.deliveries.map(({ id }) => id))
  expect([...diary.published].filter((id) => !delivered.has(id) && !dead.has(id))).toEqual([])
  expect(diary.overlaps()).toEqual([])
  expect(diary.again()).toEqual([])
  expect([...diary.acknowledged.keys()].filter((id) => dead.has(id))).toEqual([])
  const counts = diary.byJob().map(({ length }) => length)
  expect(Math.max(...counts)).toBeLessThanOrEqual(TRIES)
  expect(diary.published.size).toBeGreaterThan(200)
  expect(diary.acknowledged.size).toBeGreaterThan(200)
  expect(diary.left).toBeGreaterThan(10)
})

async function deadIds(lockstep: Lockstep): Promise<Set<string>> {
  const ids = new Set<string>()
  for (let after: string | undefined; ; ) {
    const { items, next } = await lockstep.findDead('ns/faults', { limit: 1_000, ...(after && { after }) })
    for (const { id } of items) ids.add(id)
    if (!next) return ids
    after = next
  }
}
