import { setTimeout as sleep } from 'node:timers/promises'

// What a queue takes in an application's process that uses it and rests. In plain JavaScript, like what users run: to strip
// types takes 28 MB.

/** ms until everything that a start brings with it is over. */
const SETTLE = 10_000

const ours = {
  load: () => import('pg-lockstep'),
  async produce({ defineQueue, Lockstep }, connectionString) {
    await new Lockstep({ connectionString }).enqueue(defineQueue('updates'), { id: 'a', payload: { seq: 1 } })
  },
  async work({ defineQueue, Lockstep }, connectionString) {
    const lockstep = new Lockstep({ connectionString })
    await lockstep.createWorker({ queues: [defineQueue('updates', { perform() {} })] }).start()
  },
}

async function contenderOf(name) {
  return name === 'pg-lockstep' ? ours : (await import('./peers/footprint.js')).peers[name]
}

/** Prints the ms that importing took, and the bytes of the process at rest in its role. */
async function main([name, role, connectionString]) {
  const contender = await contenderOf(name)
  const before = performance.now()
  const module = await contender.load()
  const imported = performance.now() - before
  if (role !== 'import') {
    await contender[role](module, connectionString)
    await sleep(SETTLE)
  }
  process.stdout.write(JSON.stringify({ imported, rss: process.memoryUsage.rss() }), () => process.exit())
}

await main(process.argv.slice(2))
