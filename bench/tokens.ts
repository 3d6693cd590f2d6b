import { once } from 'node:events'
import http from 'node:http'
import { parseArgs } from 'node:util'
import { Lockstep } from 'pg-lockstep'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { Gateway } from './cases/gateway.ts'
import { differenceOf } from './measure/difference.ts'
import { median } from './measure/percentile.ts'

const USAGE = `npm run bench:tokens -- [options]

Measures how long a gateway takes to refuse tokens that are nearly right. If these times differed, one could guess a
token, character by character.

  --requests <n>  of each kind; default: 10,000
`

/** Times that are compared as one. */
const PER_BLOCK = 100
const WARM_UP = 1_000
/** So many characters of a guess. */
const WRONG = 4
/** Of ULIDs, and a part of those of base64url. */
const CHARACTERS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** A way to be wrong. */
interface Guess {
  readonly name: string
  text(): string
}

interface Api {
  readonly name: string
  request(guess: string): http.RequestOptions
  readonly guesses: readonly Guess[]
}

/** A token that has others in place of some characters, never the same ones twice: what is known of a token counts for a moment. */
function wrongAt(token: string, place: number): string {
  const other = (right: string) => {
    const others = [...CHARACTERS].filter((one) => one !== right)
    return others[Math.floor(Math.random() * others.length)]!
  }
  const wrong = [...token.slice(place, place + WRONG)].map(other).join('')
  return token.slice(0, place) + wrong + token.slice(place + WRONG)
}

function nearly(token: string, prefix = 0): Guess[] {
  const atEnd = () => wrongAt(token, token.length - WRONG)
  return [
    { name: `wrong in the first ${WRONG} characters`, text: () => wrongAt(token, prefix) },
    { name: `wrong in the last ${WRONG} characters`, text: atEnd },
    { name: 'the same once more', text: atEnd },
  ]
}

async function apisOf({ adminUrl }: Gateway, lockstep: Lockstep): Promise<Api[]> {
  const created = async (namespace: string) => {
    const made = await fetch(`${adminUrl}/token/${namespace}?description=bench`, { method: 'POST' })
    return ((await made.json()) as { token: string }).token
  }
  const [own, other] = [await created('bench'), await created('other')]
  const { token } = await lockstep.createToken({ name: 'bench', scopes: ['admin'] })
  return [
    {
      name: '/api',
      request: (guess) => ({ path: '/api/bench/q/peek', headers: { 'x-token': guess } }),
      guesses: [...nearly(own), { name: 'of another namespace', text: () => other }],
    },
    {
      name: '/v1',
      request: (guess) => ({ path: '/v1/stats', headers: { authorization: `Bearer ${guess}` } }),
      guesses: nearly(token, 'lockstep_'.length),
    },
  ]
}

/** µs until a refusal has come, by guess. The kinds take turns, in another order each time. */
async function timesOf(url: string, api: Api, requests: number): Promise<Map<Guess, number[]>> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const times = new Map(api.guesses.map((guess): [Guess, number[]] => [guess, []]))
  for (let turn = -WARM_UP; turn < requests; turn += 1) {
    // All of them before the first is sent: making them takes some longer than others.
    const asked = api.guesses.map((guess) => ({ guess, options: api.request(guess.text()) }))
    for (const { guess, options } of shuffled(asked)) {
      const begun = performance.now()
      const request = http.get(url, { ...options, agent })
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      const took = (performance.now() - begun) * 1_000
      if (response.statusCode !== 401) throw new Error(`a token that is ${guess.name} is not refused`)
      response.resume()
      await once(response, 'end')
      if (turn >= 0) times.get(guess)!.push(took)
    }
  }
  agent.destroy()
  return times
}

function shuffled<T>(values: readonly T[]): T[] {
  const places = values.map((value) => ({ value, at: Math.random() }))
  return places.sort((a, b) => a.at - b.at).map(({ value }) => value)
}

function tell(api: Api, times: ReadonlyMap<Guess, readonly number[]>): void {
  const standard = times.get(api.guesses[1]!)!
  console.log(`${api.name}: a token that is ${api.guesses[1]!.name} takes ${median(standard).toFixed(0)} µs`)
  for (const [guess, own] of times) {
    if (own === standard) continue
    const { mean, spread } = differenceOf(own, standard, PER_BLOCK)
    console.log(`  ${guess.name}: ${mean.toFixed(2)} ± ${spread.toFixed(2)} µs more`)
  }
}

async function main(): Promise<void> {
  const { values: flags } = parseArgs({
    options: { requests: { type: 'string', default: '10000' }, help: { type: 'boolean', default: false } },
  })
  if (flags.help) return console.log(USAGE)
  const server = await startEmbeddedPostgres()
  const lockstep = new Lockstep({ connectionString: server.connectionString })
  try {
    await lockstep.migrate()
    const gateway = await Gateway.start(server.connectionString)
    for (const api of await apisOf(gateway, lockstep))
      tell(api, await timesOf(gateway.url, api, Number(flags.requests)))
    await gateway.stop()
  } finally {
    await lockstep.close()
    await server.stop()
  }
}

await main()
