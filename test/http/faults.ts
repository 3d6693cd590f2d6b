import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { type EmbeddedServer, freePort, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { Command } from '../cli/command.ts'
import { type Answered, type Sending, send } from './lmstfy/wire.ts'

const CLIENTS = 16
/** Seconds that a client may keep a job. */
export const LEASE = 2
/** ms of the run, and what clocks and answers on their way may take. */
const RUN = 60_000
const SLACK = 250
/** ms between faults. After the last ones, all has to be well again. */
const EVERY = 4_000
const CALM = 10_000

export interface Delivery {
  readonly id: string
  readonly from: number
  /** When the client let go of it, or its lease was over. */
  to: number
  /** The client gave it back, so that it doesn't count. */
  isReleased: boolean
}

/** What clients saw. */
export class Diary {
  readonly published = new Set<string>()
  /** When the answers came that said a job was done for good. */
  readonly done = new Map<string, number>()
  readonly deliveries: Delivery[] = []
  /** Clients that went away while they waited. */
  left = 0

  delivered(id: string, askedAt: number): Delivery {
    // The lease began after the request came, and before its answer.
    const delivery = { id, from: performance.now(), to: askedAt + LEASE * 1000, isReleased: false }
    this.deliveries.push(delivery)
    return delivery
  }

  /** Fails unless nothing was lost, nothing was held twice at once, and nothing was handed over too often. `dead`: ids. */
  judge(dead: ReadonlySet<string>, tries: number): void {
    const delivered = new Set(this.deliveries.map(({ id }) => id))
    expect([...this.published].filter((id) => !delivered.has(id) && !dead.has(id))).toEqual([])
    expect(this.#overlaps()).toEqual([])
    expect(this.#again()).toEqual([])
    expect([...this.done.keys()].filter((id) => dead.has(id))).toEqual([])
    const counts = this.#byJob().map((all) => all.filter(({ isReleased }) => !isReleased).length)
    expect(Math.max(...counts)).toBeLessThanOrEqual(tries)
  }

  /** Fails if hardly anything has happened, so that a run could find nothing. */
  expectMuch(): void {
    expect(this.published.size).toBeGreaterThan(200)
    expect(this.done.size).toBeGreaterThan(200)
    expect(this.left).toBeGreaterThan(10)
  }

  #byJob(): Delivery[][] {
    const jobs = new Map<string, Delivery[]>()
    for (const delivery of this.deliveries)
      jobs.set(delivery.id, [...(jobs.get(delivery.id) ?? []), delivery])
    return [...jobs.values()]
  }

  /** Deliveries of jobs that were done. */
  #again(): Delivery[] {
    return this.deliveries.filter(({ id, from }) => from > (this.done.get(id) ?? Infinity))
  }

  /** Pairs of deliveries of one job that were held side by side. */
  #overlaps(): Delivery[][] {
    return this.#byJob().flatMap((all) => {
      const sorted = all.sort((a, b) => a.from - b.from)
      return sorted.flatMap((one, index) => {
        const next = sorted[index + 1]
        return next && next.from < one.to - SLACK ? [[one, next]] : []
      })
    })
  }
}

/** One connection, and another one to whichever gateway, if that breaks. */
export class Connection {
  readonly #ports: readonly number[]
  readonly #headers: Readonly<Record<string, string>>
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 })

  constructor(ports: readonly number[], headers: Readonly<Record<string, string>>) {
    this.#ports = ports
    this.#headers = headers
  }

  /** A gateway may be gone: undefined. */
  async call(method: string, path: string, sending: Sending = {}): Promise<Answered | undefined> {
    const port = this.#ports[Math.floor(Math.random() * this.#ports.length)]!
    const headers = { ...this.#headers, ...sending.headers }
    try {
      return await send(port, method, path, { ...sending, headers, agent: this.#agent })
    } catch {
      await sleep(50)
      return undefined
    }
  }

  close(): void {
    this.#agent.destroy()
  }
}

/** Calls with a signal, which now and then is aborted soon: the client goes away. */
export async function perhapsLeaving(
  diary: Diary,
  call: (signal: AbortSignal) => Promise<Answered | undefined>,
): Promise<Answered | undefined> {
  const leaving = new AbortController()
  const leaves = Math.random() < 0.2
  const timer = leaves ? setTimeout(() => leaving.abort(), Math.random() * 100) : undefined
  const answer = await call(leaving.signal)
  clearTimeout(timer)
  if (!answer && leaves) diary.left += 1
  return answer
}

/** What a client does again and again: a fourth of them produce. */
export interface Client {
  produce(): Promise<void>
  consume(): Promise<void>
}

/** A database, and two gateways on it. */
export class Ground {
  readonly lockstep: Lockstep
  readonly ports: readonly number[]
  readonly adminPorts: readonly number[]
  readonly #server: EmbeddedServer
  readonly #gateways: Command[]

  private constructor(server: EmbeddedServer, ports: readonly number[], adminPorts: readonly number[]) {
    this.#server = server
    this.ports = ports
    this.adminPorts = adminPorts
    this.lockstep = new Lockstep({ connectionString: server.connectionString })
    this.#gateways = []
  }

  static async open(): Promise<Ground> {
    const server = await startEmbeddedPostgres()
    const two = () => Promise.all([freePort(), freePort()])
    const ground = new Ground(server, await two(), await two())
    await ground.lockstep.migrate()
    await Promise.all([ground.#start(0), ground.#start(1)])
    return ground
  }

  /** While the clients go on, either gateway is killed in turn and started again, and then the database is. */
  async run(clientOf: () => Client): Promise<void> {
    const until = performance.now() + RUN
    const running = Array.from({ length: CLIENTS }, async (_, index) => {
      const client = clientOf()
      while (performance.now() < until) await (index % 4 === 0 ? client.produce() : client.consume())
    })
    await Promise.all([...running, this.#disturb(until - CALM)])
  }

  async close(): Promise<void> {
    for (const { child } of this.#gateways) child.kill('SIGTERM')
    await Promise.all(this.#gateways.map(({ ended }) => ended))
    await this.lockstep.close()
    await this.#server.stop()
  }

  async deadIn(queue: string): Promise<Set<string>> {
    const ids = new Set<string>()
    for (let after: string | undefined; ; ) {
      const { items, next } = await this.lockstep.findDead(queue, { limit: 1_000, ...(after && { after }) })
      for (const { id } of items) ids.add(id)
      if (!next) return ids
      after = next
    }
  }

  async #disturb(until: number): Promise<void> {
    for (let round = 0; performance.now() < until; round += 1) {
      await sleep(EVERY)
      if (round % 3 === 2) await this.#server.restart()
      else await this.#kill(round % 3)
    }
  }

  async #kill(place: number): Promise<void> {
    const gateway = this.#gateways[place]!
    gateway.child.kill('SIGKILL')
    await gateway.ended
    await this.#start(place)
  }

  async #start(place: number): Promise<void> {
    const ports = ['--port', `${this.ports[place]}`, '--admin-port', `${this.adminPorts[place]}`]
    const env = { DATABASE_URL: this.#server.connectionString }
    const gateway = new Command(['serve', '--json', ...ports], { env })
    this.#gateways[place] = gateway
    await gateway.line((one) => 'url' in one)
  }
}

/** Takes what is left, also what comes again, until nothing has come for longer than a lease. */
export async function drained(take: () => Promise<number | undefined>): Promise<void> {
  for (let empty = 0; empty < LEASE + 3; ) {
    const jobs = await take()
    if (jobs === 0) empty += 1
    if (jobs) empty = 0
  }
}
