import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { MIGRATIONS_SINCE, previousDefinitions, previousRoles } from '../support/previous-build.ts'
import { eventually, Gate } from '../support/worker-environment.ts'
import { Logins } from './logins.ts'

let logins: Logins
let undo: (() => unknown)[] = []

beforeAll(async () => {
  logins = await Logins.open()
  await logins.asAdmin(previousDefinitions())
  const [producer, worker, viewer] = ['may push', 'may work', 'may look'].map((name) => logins.role(name))
  await logins.asAdmin(previousRoles({ producer: producer!, worker: worker!, viewer: viewer! }))
  await logins.create('owner', 'SUPERUSER')
  // As where nobody may execute a new function by default.
  await logins.asAdmin(
    `ALTER DEFAULT PRIVILEGES FOR ROLE "${logins.role('owner')}" REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`,
  )
  await logins.create('both')
  await logins.create('viewer')
  await logins.asAdmin(`GRANT "${producer}", "${worker}" TO "${logins.role('both')}"`)
  await logins.asAdmin(`GRANT "${viewer}" TO "${logins.role('viewer')}"`)
})
afterEach(async () => {
  for (const one of undo.reverse()) await one()
  undo = []
})
afterAll(() => logins?.close())

function lockstepOf(name: string): Lockstep {
  const lockstep = new Lockstep({ connectionString: logins.url(name) })
  undo.push(() => lockstep.close())
  return lockstep
}

test('roles of the build before may do what they could before `lockstep roles` is run again', async () => {
  const both = lockstepOf('both')
  const [begun, gate] = [new Gate(), new Gate()]
  const performed: unknown[] = []
  const queue = defineQueue<string>('granted', {
    maxRetryCount: 0,
    retryIn: () => 0,
    async perform(batch) {
      const [[id, payloads]] = [...batch] as [[string, string[]]]
      if (id === 'bad') throw new Error('bad')
      if (payloads.includes('a')) {
        begun.open()
        await gate.opened
      }
      performed.push([id, payloads])
    },
  })
  // As rows of before.
  await logins.asAdmin("SELECT lockstep.create_queue('granted', 1)")
  for (const id of ['old', 'bad']) await logins.asAdmin(`SELECT lockstep.enqueue('granted', '${id}', '"1"')`)
  expect(await lockstepOf('owner').migrate()).toMatchObject({ applied: MIGRATIONS_SINCE })

  await both.enqueue(queue, { id: 'held', payload: 'a' })
  const worker = both.createWorker({ queues: [queue], slots: 2 })
  const failures: unknown[] = []
  worker.on('failure', (error) => failures.push(error))
  undo.push(() => worker.stop())
  await worker.start()
  await begun.opened
  for (const payload of ['b', 'c', 'b']) await both.enqueue(queue, { id: 'held', payload })
  await both.enqueue(
    queue,
    ['x', 'y'].map((payload) => ({ id: 'bad', payload })),
  )
  const viewer = logins.pool('viewer')
  expect((await viewer.query("SELECT payloads FROM lockstep.working WHERE id = 'held'")).rows).toHaveLength(1)
  gate.open()
  await eventually(async () => {
    expect(performed).toContainEqual(['held', ['b', 'c']])
    expect(performed).toContainEqual(['old', ['1']])
    const { rows } = await viewer.query('SELECT attempts FROM lockstep.dead')
    expect(rows.map(({ attempts }) => attempts[0].kind)).toEqual(['failure', 'failure', 'failure'])
  })
  expect(failures).toEqual([])
})

test('so that a viewer of then looks in a transaction, `lockstep roles` has to be run again, as docs/upgrading.md says', async () => {
  const lockstep = lockstepOf('viewer')
  const tx = await logins.pool('viewer').connect()
  undo.push(() => tx.release())
  await tx.query('BEGIN')
  await expect(lockstep.stats({ tx })).rejects.toMatchObject({
    code: 'LOCKSTEP_PERMISSION',
    message: expect.stringMatching(/function installation.*lockstep roles/),
  })
  await tx.query('ROLLBACK')
})
