import { setTimeout as sleep } from 'node:timers/promises'
import { lockstep as command } from '../../cli/command.ts'
import { NextRelease } from '../../support/next-release.ts'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'

/**
 * The next release migrates, and its workers come and go beside those of this release, which go on with the new
 * definitions. This release's migrations, as its processes run them when they start again, change nothing.
 */
const oldBesideNew: Fault = {
  name: 'old release beside new',
  weight: 2,
  async inject(cluster, chance) {
    const next = nextReleaseOf(cluster)
    await cluster.patiently(() => migrateWith(next, cluster))
    const child = await cluster.patiently(() => {
      const worker = cluster.createWorker(
        cluster.server.connectionString,
        {},
        [],
        next.url('test/chaos/worker.ts'),
      )
      cluster.later(() => worker.kill())
      return worker.ready()
    })
    await cluster.patiently(async () => {
      const { newer } = await cluster.lockstep.migrate()
      if (!newer) throw new Error('an older release has migrated over a newer one')
    })
    await sleep(LEASE)
    await child[chance.pick(['stop', 'kill'] as const)]()
  },
}

const releases = new WeakMap<Cluster, NextRelease>()

/** One for each cluster, kept until the cluster is closed. */
function nextReleaseOf(cluster: Cluster): NextRelease {
  let next = releases.get(cluster)
  if (!next) {
    next = new NextRelease({ servesThis: true })
    releases.set(cluster, next)
    cluster.later(() => next!.remove())
    // Also if the cluster fails before it is closed.
    process.once('exit', () => next!.remove())
  }
  return next
}

async function migrateWith(next: NextRelease, { server }: Cluster): Promise<void> {
  const env = { DATABASE_URL: server.connectionString }
  const { code, stderr } = await command(['migrate'], { env, main: next.url('src/cli/main.ts') })
  if (code !== 0) throw new Error(`the next release did not migrate: ${stderr}`)
}

export const releaseFaults: readonly Fault[] = [oldBesideNew]
