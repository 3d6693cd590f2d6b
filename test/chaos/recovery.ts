import { Cluster } from './cluster.ts'
import { UNLIMITED } from './queues.ts'
import { SMALL } from './scale.ts'

/** How long it takes until work goes on after something broke. */
export interface Recovery {
  readonly what: string
  /** ms. */
  readonly limit: number
  readonly took: readonly number[]
}

/** The product's defaults. */
const TIMING = { lease: 10_000, rebalanceInterval: 500, poll: 1_000 }
const HELD = 60_000

type Probe = (cluster: Cluster) => Promise<Record<string, number>>

interface Limited {
  readonly workers: number
  readonly limits: Readonly<Record<string, number>>
  readonly measure: Probe
}

const CASES: readonly Limited[] = [
  {
    workers: 2,
    limits: {
      'other ids of its shards, after SIGKILL of one of two processes': 1_000,
      'its claimed ids, after SIGKILL of one of two processes': TIMING.lease + 1_000,
    },
    measure: kill,
  },
  {
    workers: 2,
    limits: { 'after a crash of the server, from its accepting connections': 2_000 },
    measure: crash,
  },
  {
    workers: 1,
    limits: { 'after all connections of the only process are half open': 15_000 },
    measure: strand,
  },
]

/** Measures each `repeats` times, with the default lease, rebalance interval and poll. */
export async function measureRecovery(repeats: number, tell: (line: string) => void): Promise<Recovery[]> {
  const found: Recovery[] = []
  for (const { workers, limits, measure } of CASES) {
    const took: Record<string, number>[] = []
    for (let repeat = 0; repeat < repeats; repeat += 1) {
      const options = { workers, producers: 0, scale: SMALL, timing: TIMING }
      // What a limit keeps waiting has nothing to do with recovery.
      const cluster = await Cluster.open({ ...options, filled: UNLIMITED })
      try {
        await cluster.probe()
        took.push(await measure(cluster))
        tell(
          Object.entries(took.at(-1)!)
            .map(([what, ms]) => `${what}: ${Math.round(ms)} ms`)
            .join('; '),
        )
      } finally {
        await cluster.close()
      }
    }
    for (const [what, limit] of Object.entries(limits)) {
      found.push({ what, limit, took: took.map((figures) => figures[what]!) })
    }
  }
  return found
}

async function kill(cluster: Cluster): Promise<Record<string, number>> {
  const [victim] = cluster.workers.posts
  for (let slot = 0; slot < 3; slot += 1) victim!.child.tell({ kind: 'ignore', for: HELD })
  const busy = Array.from({ length: 200 }, (_, index) => `busy-${index}`)
  await cluster.push(busy, 1)
  const claimed = await claimsThatStay(cluster)
  const at = performance.now()
  // For good, since a process that is started again would help.
  await cluster.workers.leave(victim!, 'kill')
  const others = cluster.probe()
  await done(
    cluster,
    busy.filter((id) => !claimed.includes(id)),
  )
  const first = performance.now() - at
  await others
  await done(cluster, claimed)
  const [one, two] = Object.keys(CASES[0]!.limits)
  return { [one!]: first, [two!]: performance.now() - at }
}

/** The jobs that the victim holds, once everything is done except what waits in its shards. */
async function claimsThatStay(cluster: Cluster): Promise<string[]> {
  let last: string[] = []
  await cluster.until('three claims stay', async () => {
    const rows = await cluster.sql<{ id: string }>(
      `SELECT id FROM lockstep.jobs WHERE claimed_at < clock_timestamp() - interval '300 ms' ORDER BY id`,
    )
    last = rows.map(({ id }) => id)
    return last.length >= 3
  })
  return last
}

function done(cluster: Cluster, ids: readonly string[]): Promise<void> {
  return cluster.until('processed', async () => {
    const rows = await cluster.sql('SELECT FROM lockstep.jobs WHERE id = ANY ($1) LIMIT 1', [ids])
    return rows.length === 0
  })
}

async function crash(cluster: Cluster): Promise<Record<string, number>> {
  await cluster.restartServer('immediate')
  const took = await cluster.probe()
  return { [Object.keys(CASES[1]!.limits)[0]!]: took }
}

async function strand(cluster: Cluster): Promise<Record<string, number>> {
  cluster.workers.posts[0]!.network.strand()
  const took = await cluster.probe()
  return { [Object.keys(CASES[2]!.limits)[0]!]: took }
}
