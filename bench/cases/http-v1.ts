import { defineQueue, Lockstep } from 'pg-lockstep'
import type { Bench, Case, Figures } from '../case.ts'
import type { Shot } from '../measure/load.ts'
import { CONNECTIONS, during, type Gateway, rateCase, shoot } from './gateway.ts'

const PAYLOAD = 'x'.repeat(100)
const BULK = 64
const BATCH = 100
/** s; longer than a case takes. */
const LEASE = 600
const QUEUE = defineQueue<string>('bench')

/** A gateway, and the headers of requests with a token. `jobs`: as many wait. */
async function clientOf(gateway: Gateway, { setting }: Bench, jobs = 0) {
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  const { token } = await lockstep.createToken({ name: 'bench', scopes: ['produce', 'consume'] })
  for (let from = 0; from < jobs; from += 1_000)
    await lockstep.enqueue(QUEUE, jobsFrom(from, Math.min(1_000, jobs - from)))
  await lockstep.close()
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return { url: gateway.url, headers }
}

function jobsFrom(first: number, count: number): { id: string; payload: string }[] {
  return Array.from({ length: count }, (_, index) => ({ id: `${1e9 + first + index}`, payload: PAYLOAD }))
}

/** Each job has an id of its own. */
const enqueue = (bench: Bench, bodyOf: (number: number) => unknown, each: number): Promise<Figures> =>
  during(bench, async (gateway) => {
    const path = () => `/v1/queues/${QUEUE.name}/jobs`
    const body = (number: number) => JSON.stringify(bodyOf(number))
    return shoot(bench, {
      ...(await clientOf(gateway, bench)),
      shots: [{ method: 'POST', path, body }],
      each,
    })
  })

interface ClaimRow {
  readonly queue: string
  readonly id: string
  readonly fence: string
}

/** Each connection claims up to `count` jobs, and completes them. Those that were handed out count. */
const claimAndComplete = (bench: Bench, count: number): Promise<Figures> =>
  during(bench, async (gateway) => {
    const client = await clientOf(gateway, bench, bench.size.jobs + 2 * CONNECTIONS * count)
    const shots: readonly Shot[] = [
      {
        method: 'POST',
        path: () => '/v1/claim',
        body: JSON.stringify({ queues: QUEUE.name, count, lease: LEASE }),
      },
      {
        method: 'POST',
        path: () => '/v1/complete',
        body: (_, answer) => JSON.stringify(claimsIn(answer, count)),
      },
    ]
    const figures = await shoot(bench, { ...client, shots, each: count })
    const { rows } = await bench.pool.query('SELECT FROM lockstep.jobs WHERE claimed_by IS NOT NULL LIMIT 1')
    if (rows.length > 0) throw new Error('a job was claimed and not completed')
    return figures
  })

function claimsIn(answer: string, count: number): object {
  const { jobs } = JSON.parse(answer) as { jobs: readonly ClaimRow[] }
  if (jobs.length < count) throw new Error(`a claim has ${jobs.length} of ${count} jobs`)
  const claims = jobs.map(({ queue, id, fence }) => ({ queue, id, fence }))
  return count === 1 ? claims[0]! : { claims }
}

/** What clients of our own HTTP API do, through a gateway of its own process: 32 connections, payloads of 100 bytes, tokens. */
export const httpV1Cases: readonly Case[] = [
  rateCase('http-v1-enqueue', 'pushed over /v1', 40_000, (bench) =>
    enqueue(bench, (number) => jobsFrom(number, 1)[0], 1),
  ),
  rateCase('http-v1-bulk', 'pushed over /v1 by 64', 128_000, (bench) =>
    enqueue(bench, (number) => ({ jobs: jobsFrom(number * BULK, BULK) }), BULK),
  ),
  rateCase('http-v1-one', 'claimed and completed over /v1 one by one', 20_000, (bench) =>
    claimAndComplete(bench, 1),
  ),
  rateCase('http-v1-batch', 'claimed and completed over /v1 by 100', 100_000, (bench) =>
    claimAndComplete(bench, BATCH),
  ),
]
