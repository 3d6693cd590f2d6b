import { setTimeout as sleep } from 'node:timers/promises'
import { lockstep as command } from '../../cli/command.ts'
import { NextRelease } from '../../support/next-release.ts'
import type { Fault } from '../fault.ts'
import { type Field, LEASE } from '../field.ts'

/**
 * The next release migrates, and its workers come and go beside those of this one, which go on with its definitions
 * from then on; and this one's migrations, as its processes call them when they start again, change nothing.
 */
const oldBesideNew: Fault = {
  name: 'old release beside new',
  weight: 2,
  async inject(field, chance) {
    const next = nextReleaseOf(field)
    await field.patiently(() => migrateWith(next, field))
    const child = await field.patiently(() => {
      const worker = field.createWorker(
        field.server.connectionString,
        {},
        [],
        next.url('test/chaos/worker.ts'),
      )
      field.later(() => worker.kill())
      return worker.ready()
    })
    await field.patiently(async () => {
      const { newer } = await field.lockstep.migrate()
      if (!newer) throw new Error('an older release has migrated over a newer one')
    })
    await sleep(LEASE)
    await child[chance.pick(['stop', 'kill'] as const)]()
  },
}

const releases = new WeakMap<Field, NextRelease>()

/** One for each field: it is there until the field is left. */
function nextReleaseOf(field: Field): NextRelease {
  let next = releases.get(field)
  if (!next) {
    next = new NextRelease({ servesThis: true })
    releases.set(field, next)
    field.later(() => next!.remove())
    // Also where the field fails before it is left.
    process.once('exit', () => next!.remove())
  }
  return next
}

async function migrateWith(next: NextRelease, { server }: Field): Promise<void> {
  const env = { DATABASE_URL: server.connectionString }
  const { code, stderr } = await command(['migrate'], { env, main: next.url('src/cli/main.ts') })
  if (code !== 0) throw new Error(`the next release did not migrate: ${stderr}`)
}

export const releaseFaults: readonly Fault[] = [oldBesideNew]
