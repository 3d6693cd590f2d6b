import { setTimeout as sleep } from 'node:timers/promises'
import { Lockstep } from '../../../src/index.ts'
import { silentLogger } from '../../../src/logger.ts'
import { hasPgBouncer, startPgBouncer } from '../../support/pgbouncer.ts'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'
import type { ProducerOptions } from '../producer.ts'
import { FILLED } from '../queues.ts'

const reshard: Fault = {
  name: 'reshard up and down',
  weight: 4,
  async inject(cluster, chance) {
    const queue = cluster.queues[chance.pick(FILLED)]
    for (const shards of [chance.int(7, 24), chance.int(1, 5)]) {
      await cluster.patiently(async () => void (await cluster.lockstep.reshard(queue, shards)))
      await sleep(LEASE / 4)
    }
  },
}

/** The producer must retry serialization failures. What it was told is committed must be there. */
const strictProducers: Fault = {
  name: 'producers at REPEATABLE READ and SERIALIZABLE',
  weight: 3,
  async inject(cluster) {
    const { connectionString } = cluster.server
    await produce(cluster, [
      { name: cluster.name('strict'), connectionString, isolation: 'REPEATABLE READ' },
      { name: cluster.name('strict'), connectionString, isolation: 'SERIALIZABLE' },
    ])
  },
}

/** Producing works through the pooler. A worker's own connections don't, and the worker says so. */
const pooled: Fault = {
  name: 'PgBouncer in transaction mode',
  weight: 2,
  possible: hasPgBouncer,
  async inject(cluster) {
    const bouncer = await startPgBouncer(cluster.server.connectionString)
    try {
      const { connectionString } = bouncer
      await produce(cluster, [{ name: cluster.name('pooled'), connectionString }])
      await cluster.patiently(() => expectRefusal(cluster, connectionString))
    } finally {
      await bouncer.stop()
    }
  },
}

type Hired = Pick<ProducerOptions, 'name' | 'connectionString'> & Partial<ProducerOptions>

/** Producers that run for a while. */
async function produce(cluster: Cluster, hired: readonly Hired[]): Promise<void> {
  const hire = (options: Hired) => {
    const child = cluster.createProducer(options)
    cluster.later(() => child.kill())
    return child.ready()
  }
  const children = await Promise.all(hired.map((options) => cluster.patiently(() => hire(options))))
  await sleep(LEASE)
  await Promise.all(children.map((child) => child.stop()))
}

async function expectRefusal(cluster: Cluster, connectionString: string): Promise<void> {
  const lockstep = new Lockstep({ connectionString, logger: silentLogger })
  try {
    const worker = lockstep.createWorker({ queues: Object.values(cluster.queues) })
    const code = await worker.start().then(
      () => worker.stop(),
      (error: { code?: string }) => error.code,
    )
    if (code !== 'LOCKSTEP_POOLED') throw new Error(`a worker behind a pooler: ${code}`)
  } finally {
    await lockstep.close()
  }
}

export const queueFaults: readonly Fault[] = [reshard, strictProducers, pooled]
