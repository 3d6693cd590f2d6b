import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { defineQueue, Lockstep } from 'pg-lockstep'
import type { Bench, Case, Figures } from '../case.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { transactionRate } from '../measure/transactions.ts'
import { COMMON, CONNECTIONS, during, type Gateway, rateCase, shoot } from './gateway.ts'

const BODY = 'x'.repeat(100)
const BULK = 64
const BATCH = 100
const QUEUE = '/api/bench/jobs'
const STORED = defineQueue<string>('bench/jobs', { shards: 1 })

type Client = Awaited<ReturnType<typeof clientOf>>

/** A gateway, and the headers of requests with a token. */
async function clientOf({ url, adminUrl }: Gateway) {
  const created = await fetch(`${adminUrl}/token/bench?description=bench`, { method: 'POST' })
  const { token } = (await created.json()) as { token: string }
  return { url, headers: { 'x-token': token } }
}

/** As a publish stores them. */
async function fill(connectionString: string, jobs: number): Promise<string[]> {
  const lockstep = new Lockstep({ connectionString })
  const ids = Array.from({ length: jobs }, (_, n) => `${1e15 + n}`)
  for (let from = 0; from < jobs; from += 1_000) {
    const some = ids.slice(from, from + 1_000)
    await lockstep.enqueue(
      STORED,
      some.map((id) => ({
        id,
        payload: Buffer.from(BODY).toString('base64'),
        headers: { tries: 1, expires: 0 },
      })),
    )
  }
  await lockstep.close()
  return ids
}

const publish = (bench: Bench): Promise<Figures> =>
  during(bench, async (gateway) => {
    const shots = [{ method: 'PUT', path: () => QUEUE, body: BODY }] as const
    return shoot(bench, { ...(await clientOf(gateway)), shots, each: 1 })
  })

/** ms from when each publish was due to its answer, so that whoever is late makes all the others late. */
const publishAt = (bench: Bench, rate: number): Promise<Figures> =>
  during(bench, async (gateway) => {
    const { url, headers } = await clientOf(gateway)
    const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
    const times: number[] = []
    const publishOne = async (dueAt: number) => {
      const request = http.request(`${url}${QUEUE}`, { method: 'PUT', headers, agent })
      request.end(BODY)
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      response.resume()
      await once(response, 'end')
      if (response.statusCode !== 201) throw new Error(`a publish was answered with ${response.statusCode}`)
      times.push(performance.now() - dueAt)
    }
    for (const jobs of [rate, bench.size.jobs]) {
      const begun = performance.now()
      const sent: Promise<void>[] = []
      times.length = 0
      while (sent.length < jobs) {
        for (; sent.length < jobs && begun + (sent.length * 1000) / rate <= performance.now(); )
          sent.push(publishOne(begun + (sent.length * 1000) / rate))
        await sleep(1)
      }
      await Promise.all(sent)
    }
    agent.destroy()
    return percentilesOf(times)
  })

const publishBulk = (bench: Bench): Promise<Figures> => {
  const body = JSON.stringify(Array.from({ length: BULK }, () => BODY))
  return during(bench, async (gateway) => {
    const shots = [{ method: 'PUT', path: () => `${QUEUE}/bulk`, body }] as const
    return shoot(bench, { ...(await clientOf(gateway)), shots, each: BULK })
  })
}

const consume = (bench: Bench, count: number): Promise<Figures> =>
  during(bench, async (gateway) => {
    await fill(bench.setting.connectionString, bench.size.jobs + CONNECTIONS * count)
    const shots = [{ method: 'GET', path: () => `${QUEUE}?ttr=600&count=${count}` }] as const
    return shoot(bench, { ...(await clientOf(gateway)), shots, each: count })
  })

const acknowledge = (bench: Bench): Promise<Figures> =>
  during(bench, async (gateway) => {
    const ids = await fill(bench.setting.connectionString, bench.size.jobs)
    const { url, headers } = await clientOf(gateway)
    let consumed = 200
    while (consumed === 200) {
      const answer = await fetch(`${url}${QUEUE}?ttr=600&count=${BATCH}`, { headers })
      await answer.arrayBuffer()
      consumed = answer.status
    }
    const path = (number: number) => `${QUEUE}/job/${ids[number % ids.length]}`
    return shoot(bench, { url, headers, shots: [{ method: 'DELETE', path }], each: 1 })
  })

const WAITING = 5_000
const PUSH_EVERY = 50
/** ms until what comes with a start is over. */
const SETTLE = 10_000

/** Long polls that wait. `answered` is called when one of them gets a job. */
async function waiting(
  bench: Bench,
  run: (gateway: Gateway, client: Client) => Promise<Figures>,
  answered: () => void = () => {},
): Promise<Figures> {
  return during(bench, async (gateway) => {
    const client = await clientOf(gateway)
    const { url, headers } = client
    const agent = new http.Agent({ maxSockets: Number.POSITIVE_INFINITY })
    for (let n = 0; n < WAITING; n += 1) {
      const request = http.get(`${url}${QUEUE}?timeout=600`, { headers, agent }, (response) => {
        if (response.statusCode === 200) answered()
        response.resume()
      })
      request.on('error', () => {})
      if (n % 100 === 0) await sleep(20)
    }
    await sleep(3_000)
    const result = await run(gateway, client)
    agent.destroy()
    return result
  })
}

/** ms from a publish until one of those that wait has the job. */
async function wakeUps(bench: Bench): Promise<Figures> {
  const pushed: number[] = []
  const times: number[] = []
  const answered = () => times.push(performance.now() - pushed[times.length]!)
  return waiting(bench, publishAll, answered)

  async function publishAll(_: Gateway, { url, headers }: Client): Promise<Figures> {
    for (let n = 0; n < bench.size.jobs; n += 1) {
      pushed.push(performance.now())
      await fetch(`${url}${QUEUE}`, { method: 'PUT', body: BODY, headers })
      await sleep(PUSH_EVERY)
    }
    await sleep(1_000)
    if (times.length < bench.size.jobs) throw new Error(`${times.length} of ${bench.size.jobs} jobs came`)
    return percentilesOf(times)
  }
}

/** Transactions a second, while nothing comes. */
const resting = (bench: Bench): Promise<Figures> =>
  waiting(bench, async () => {
    const client = new pg.Client({ connectionString: bench.setting.connectionString })
    await client.connect()
    await sleep(SETTLE)
    const value = await transactionRate(client, bench.size.seconds! * 1000)
    await client.end()
    return { value }
  })

const HALF_LOAD = 1_750

/** What lmstfy's clients do, through a gateway of its own process: 32 connections, bodies of 100 bytes. */
export const httpCases: readonly Case[] = [
  rateCase('http-publish', 'published over HTTP', 40_000, publish),
  rateCase('http-bulk', 'published over HTTP by 64', 128_000, publishBulk),
  rateCase('http-consume', 'consumed over HTTP one by one', 40_000, (bench) => consume(bench, 1)),
  rateCase('http-batch', 'consumed over HTTP by 100', 100_000, (bench) => consume(bench, BATCH)),
  rateCase('http-ack', 'acknowledged over HTTP', 40_000, acknowledge),
  {
    ...COMMON,
    name: 'http-half-load',
    title: `${HALF_LOAD} publishes/s over HTTP`,
    unit: 'ms',
    full: { jobs: 30_000, patience: 60 },
    quick: { jobs: 10_000, patience: 60 },
    run: (bench) => publishAt(bench, HALF_LOAD),
  },
  {
    ...COMMON,
    name: 'http-waiting',
    title: 'a publish over HTTP until one of 5,000 long polls has the job',
    unit: 'ms',
    full: { jobs: 200, patience: 60 },
    quick: { jobs: 100, patience: 60 },
    run: wakeUps,
  },
  {
    ...COMMON,
    name: 'http-rest',
    title: 'a gateway with 5,000 long polls while nothing comes',
    unit: 'tx/s',
    full: { jobs: 0, seconds: 30, patience: 60 },
    quick: { jobs: 0, seconds: 20, patience: 60 },
    run: resting,
  },
  {
    ...COMMON,
    name: 'http-memory',
    title: 'a gateway with 5,000 long polls',
    unit: 'MB',
    full: { jobs: 1, patience: 60 },
    quick: { jobs: 1, patience: 60 },
    run: (bench) => waiting(bench, async (gateway) => ({ value: await gateway.memory() })),
  },
]
