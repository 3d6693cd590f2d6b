import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from '../fault.ts'
import { LEASE } from '../field.ts'
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
    const connectionString = field.server.connectionString
    const children = (['REPEATABLE READ', 'SERIALIZABLE'] as const).map((isolation) =>
      field.createProducer({ name: field.name('strict'), connectionString, isolation }),
    )
    for (const child of children) field.later(() => child.kill())
    await Promise.all(children.map((child) => child.ready()))
    await sleep(LEASE)
    await Promise.all(children.map((child) => child.stop()))
  },
}

export const queueFaults: readonly Fault[] = [reshard, strictProducers]
