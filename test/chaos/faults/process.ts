import { setTimeout as sleep } from 'node:timers/promises'
import { LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'

const killWorker: Fault = {
  name: 'worker killed',
  weight: 10,
  inject: (cluster, chance) => cluster.workers.pick(chance).child.kill(),
}

const killProducer: Fault = {
  name: 'producer killed',
  weight: 6,
  inject: (cluster, chance) => cluster.producers.pick(chance).child.kill(),
}

/** Longer than its lease: the worker goes on as if nothing had happened, and is refused. */
const freezeWorker: Fault = {
  name: 'worker stopped longer than its lease, continued',
  weight: 6,
  async inject(cluster, chance) {
    const { child } = cluster.workers.pick(chance)
    const stoppedAt = process.hrtime.bigint()
    child.signal('SIGSTOP')
    await sleep(LEASE * 1.5)
    cluster.noteFreeze(child.name, stoppedAt)
    child.signal('SIGCONT')
  },
}

const blockEventLoop: Fault = {
  name: 'event loop blocked for three leases',
  weight: 3,
  async inject(cluster, chance) {
    cluster.workers.pick(chance).child.tell({ kind: 'block', for: 3 * LEASE })
    await sleep(3 * LEASE)
  },
}

/** The lease is over and the handler ignores the signal. So only the death of the process keeps its successor alone. */
const ignoreSignal: Fault = {
  name: 'handler ignores its signal while the lease ends',
  weight: 3,
  async inject(cluster, chance) {
    const { child, network } = cluster.workers.pick(chance)
    child.tell({ kind: 'ignore', for: 3 * LEASE })
    await sleep(LEASE / 10)
    network.cut()
    await sleep(1.2 * LEASE)
    network.restore()
  },
}

const poison: Fault = {
  name: 'job that kills its process',
  weight: 2,
  async inject(cluster) {
    const id = cluster.poison()
    await cluster.patiently(() => cluster.lockstep.enqueue(cluster.queues.poison, { id, payload: 1 }))
    await cluster.until(`${id} in the morgue`, async () => {
      const rows = await cluster.sql('SELECT FROM lockstep.morgue WHERE job_id = $1', [id])
      return rows.length > 0
    })
  },
}

/** Some are stopped, some are killed. */
const joinAndLeave: Fault = {
  name: 'many processes join and leave',
  weight: 1,
  async inject(cluster, chance) {
    for (let left = cluster.scale.crowd; left > 0; left -= cluster.scale.crowdAtOnce) {
      const count = Math.min(left, cluster.scale.crowdAtOnce)
      const posts = await Promise.all(Array.from({ length: count }, () => cluster.workers.join()))
      await Promise.all(posts.map((post) => cluster.workers.leave(post, chance.pick(['stop', 'kill']))))
    }
  },
}

const HOUR = 3_600_000

/** Applies to every thread of the process. */
function skew(offset: number): string[] {
  const code = `
    const Real = Date
    globalThis.Date = class extends Real {
      constructor(...given) { given.length > 0 ? super(...given) : super(Real.now() + ${offset}) }
      static now() { return Real.now() + ${offset} }
    }`
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

const wrongClock: Fault = {
  name: 'clock of a worker off by hours',
  weight: 3,
  async inject(cluster, chance) {
    const offset = chance.pick([-5, -1, 1, 7, 30]) * HOUR
    // If another fault hits its start, another process is started.
    const child = await cluster.patiently(() => {
      const worker = cluster.createWorker(cluster.server.connectionString, {}, skew(offset))
      cluster.later(() => worker.kill())
      return worker.ready()
    })
    await sleep(LEASE)
    await child.stop()
  },
}

export const processFaults: readonly Fault[] = [
  killWorker,
  killProducer,
  freezeWorker,
  blockEventLoop,
  ignoreSignal,
  poison,
  joinAndLeave,
  wrongClock,
]
