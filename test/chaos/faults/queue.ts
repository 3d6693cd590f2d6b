import { setTimeout as sleep } from 'node:timers/promises'
import { Lockstep } from '../../../src/index.ts'
import { silentLogger } from '../../../src/logger.ts'
import { hasPgBouncer, startPgBouncer } from '../../support/pgbouncer.ts'
import type { Fault } from '../fault.ts'
import { type Field, LEASE } from '../field.ts'
import type { ProducerOptions } from '../producer.ts'
import { FILLED } from '../queues.ts'

const reshard: Fault = {
  name: 'reshard up and down',
  weight: 4,
  async inject(field, chance) {
    const queue = field.queues[chance.pick(FILLED)]
    for (const shards of [chance.int(7, 24), chance.int(1, 5)]) {
      await field.patiently(async () => void (await field.lockstep.reshard(queue, shards)))
      await sleep(LEASE / 4)
    }
  },
}

/** Serialization failures are the producer's to retry; what it was told is committed has to be. */
const strictProducers: Fault = {
  name: 'producers at REPEATABLE READ and SERIALIZABLE',
  weight: 3,
  async inject(field) {
    const { connectionString } = field.server
    await produce(field, [
      { name: field.name('strict'), connectionString, isolation: 'REPEATABLE READ' },
      { name: field.name('strict'), connectionString, isolation: 'SERIALIZABLE' },
    ])
  },
}

/** Producing works through it; a worker's own connections don't, and it says so. */
const pooled: Fault = {
  name: 'PgBouncer in transaction mode',
  weight: 2,
  possible: hasPgBouncer,
  async inject(field) {
    const bouncer = await startPgBouncer(field.server.connectionString)
    try {
      const { connectionString } = bouncer
      await produce(field, [{ name: field.name('pooled'), connectionString }])
      await field.patiently(() => expectRefusal(field, connectionString))
    } finally {
      await bouncer.stop()
    }
  },
}

type Hired = Pick<ProducerOptions, 'name' | 'connectionString'> & Partial<ProducerOptions>

/** Producers that come for a while. */
async function produce(field: Field, hired: readonly Hired[]): Promise<void> {
  const hire = (options: Hired) => {
    const child = field.createProducer(options)
    field.later(() => child.kill())
    return child.ready()
  }
  const children = await Promise.all(hired.map((options) => field.patiently(() => hire(options))))
  await sleep(LEASE)
  await Promise.all(children.map((child) => child.stop()))
}

async function expectRefusal(field: Field, connectionString: string): Promise<void> {
  const lockstep = new Lockstep({ connectionString, logger: silentLogger })
  try {
    const worker = lockstep.createWorker({ queues: Object.values(field.queues) })
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
