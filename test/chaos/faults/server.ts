import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Backend, backends } from '../../support/backends.ts'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'
import { FILLED } from '../queues.ts'

const crash: Fault = {
  name: 'server crashed and started',
  weight: 3,
  inject: (cluster) => cluster.restartServer('immediate'),
}

const restart: Fault = {
  name: 'server restarted',
  weight: 2,
  inject: (cluster) => cluster.restartServer('fast'),
}

const HOUR = 3_600

/** Has the effect of a set clock on whatever is compared with it: the tests can't set the machine's clock. */
const clockSet: Fault = {
  name: 'clock of the server set by an hour',
  weight: 3,
  async inject(cluster, chance) {
    const by = chance.pick([-HOUR, HOUR])
    const until = performance.now() + 1.5 * LEASE
    while (performance.now() < until) {
      await cluster.patiently(() =>
        cluster.sql(`UPDATE lockstep.processes SET expires_at = clock_timestamp() - $1 * interval '1 s'`, [
          by,
        ]),
      )
      await sleep(LEASE / 100)
    }
  },
}

/** Sometimes terminates the next connection too, just when it has opened and is preparing itself. */
function terminated(kind: Backend): Fault {
  return {
    name: `${kind} connection terminated`,
    weight: 4,
    async inject(cluster, chance) {
      for (let left = chance.int(1, 5); left > 0; left -= 1) {
        const pids = await cluster.patiently(() => backends(cluster, kind))
        if (pids.length > 0)
          await cluster.patiently(() => cluster.sql('SELECT pg_terminate_backend($1)', [chance.pick(pids)]))
        await sleep(chance.int(0, 50))
      }
    },
  }
}

/** In the middle of a statement or a batch. */
const fullDisk: Fault = {
  name: 'disk full in the middle of a batch',
  weight: 4,
  async inject(cluster) {
    await cluster.patiently(() => cluster.sql('UPDATE disk SET is_full = true'))
    await sleep(LEASE / 2)
    await cluster.patiently(() => cluster.sql('UPDATE disk SET is_full = false'))
  },
}

/** Vacuum can't remove what the snapshot might still see. */
const heldSnapshot: Fault = {
  name: 'snapshot held',
  weight: 2,
  async inject(cluster) {
    const session = await cluster.patiently(() => cluster.session())
    await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1').catch(() => {})
    await sleep(2 * LEASE)
    await session.end()
  },
}

/** The other jobs of its shards go on meanwhile, as the probes show. */
const heldRow: Fault = {
  name: 'row held by an open push',
  weight: 3,
  async inject(cluster) {
    const ids = [cluster.name('held')]
    await cluster.patiently(() => cluster.push(ids, 1))
    const holder = await cluster.patiently(() => cluster.session())
    const held = hold(cluster, holder, ids).catch(() => {})
    cluster.later(() => held)
    await sleep(LEASE / 4)
  },
}

async function hold(cluster: Cluster, holder: pg.Client, ids: readonly string[]): Promise<void> {
  try {
    await holder.query('BEGIN')
    for (const queue of FILLED) await cluster.pushIn(holder, queue, ids, 2)
    await sleep(cluster.scale.hold)
    await holder.query('COMMIT')
  } finally {
    await holder.end()
  }
}

const BIG = 'x'.repeat(7_000)
const ENOUGH = 0.9

/** A session in an old transaction keeps the server from dropping notifications that this session has not received. */
const fullNotifyQueue: Fault = {
  name: 'notification queue full',
  weight: 3,
  async inject(cluster) {
    if (!cluster.smallNotifyQueue) return
    // Another fault may end the server or the session meanwhile: then the queue is empty again.
    await cluster.patiently(async () => {
      const deaf = await cluster.session()
      try {
        await deaf.query('LISTEN nothing')
        await deaf.query('BEGIN')
        await fill(cluster, deaf)
        await sleep(LEASE / 2)
      } finally {
        await deaf.end().catch(() => {})
      }
    })
  },
}

async function fill(cluster: Cluster, deaf: pg.Client): Promise<void> {
  for (let n = 0; ; n += 1) {
    // Fails if the session has ended: without it the queue would never be full.
    await deaf.query('SELECT 1')
    const [row] = await cluster.sql<{ usage: number }>('SELECT pg_notification_queue_usage() AS usage')
    if (row!.usage > ENOUGH) return
    await cluster.sql('SELECT pg_notify($1, $2)', ['nothing', `${n} ${BIG}`]).catch(() => {})
  }
}

const KINDS: readonly Backend[] = ['lease', 'lock', 'listen', 'pool']

export const serverFaults: readonly Fault[] = [
  crash,
  restart,
  clockSet,
  ...KINDS.map(terminated),
  fullDisk,
  heldSnapshot,
  heldRow,
  fullNotifyQueue,
]
