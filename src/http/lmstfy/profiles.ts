import { Session } from 'node:inspector/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Call, json, type Reply } from '../call.ts'

/** Seconds of a profile, as in Go. */
const DEFAULT_SECONDS = 30
const MOST_SECONDS = 300

const INDEX = `profile  where the time goes; ?seconds= (default ${DEFAULT_SECONDS}), as a .cpuprofile
heap     what the memory is allocated for, over ?seconds=, as a .heapprofile

Both are V8's, and open in Chrome's developer tools and in editors.
`

/** How a kind of profile is begun, and what ends it. */
const KINDS = {
  profile: {
    suffix: 'cpuprofile',
    begin: (session: Session) => session.post('Profiler.enable').then(() => session.post('Profiler.start')),
    end: async (session: Session) => (await session.post('Profiler.stop')).profile,
  },
  heap: {
    suffix: 'heapprofile',
    begin: (session: Session) => session.post('HeapProfiler.startSampling'),
    end: async (session: Session) => (await session.post('HeapProfiler.stopSampling')).profile,
  },
} as const

let isProfiling = false

/** What the gateway is doing: the part of Go's `/debug/pprof` that Node has. One profile at a time. */
export async function profile({ query }: Call, name: string): Promise<Reply> {
  if (name === '')
    return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: INDEX }
  if (!Object.hasOwn(KINDS, name)) return json(404, { error: 'api not found' })
  const seconds = secondsIn(query.get('seconds'))
  if (seconds === undefined) return json(400, { error: 'invalid seconds' })
  if (isProfiling) return json(409, { error: 'another profile is being taken' })
  isProfiling = true
  try {
    return await taken(KINDS[name as keyof typeof KINDS], seconds)
  } finally {
    isProfiling = false
  }
}

async function taken(
  { suffix, begin, end }: (typeof KINDS)[keyof typeof KINDS],
  seconds: number,
): Promise<Reply> {
  const session = new Session()
  session.connect()
  try {
    await begin(session)
    await sleep(seconds * 1_000, undefined, { ref: false })
    const disposition = `attachment; filename="gateway.${suffix}"`
    return {
      status: 200,
      headers: { 'content-type': 'application/json', 'content-disposition': disposition },
      body: JSON.stringify(await end(session)),
    }
  } finally {
    session.disconnect()
  }
}

function secondsIn(text: string | null): number | undefined {
  if (text === null) return DEFAULT_SECONDS
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0
  return seconds >= 1 && seconds <= MOST_SECONDS ? seconds : undefined
}
