import { expect, test } from 'vitest'
import { defineQueue } from '../../../src/index.ts'
import { below, useGateways } from './gateway.ts'

const { open, name } = useGateways()

/** The names of functions and options of the library, which a client has never seen. */
const STRANGE =
  /\b(find|findDead|deleteDead|requeue|complete|result): |performIn|expiresIn|diedAt|retryCount|enqueueForResult/

test.each([
  ['ids=%00', 'ids[0]'],
  ['id.from=%00', 'id.from'],
  ['tenant=%00', 'tenant'],
  ['by=id&after=%00', 'after'],
  ['by=perform_in&after=x', undefined],
])('a bad query of jobs is told by its own names: %s', async (query, field) => {
  const { get, post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), { id: 'a' })
  const { status, json } = await get(below(queue, `/jobs?${query}`))
  expect([status, json.code, json.field]).toEqual([400, 'LOCKSTEP_BAD_OPTION', field])
  expect(json.detail).not.toMatch(STRANGE)
  expect(json.detail).toContain(field ?? '`perform_in`')
})

test.each([
  [{ keys: ['x'], ids: ['a'] }, 'filter.keys[0]', 'filter.keys[0] must be 32 hexadecimal digits'],
  [{ keys: ['a'.repeat(32)] }, 'filter.keys', 'filter.keys need the `ids` of their jobs beside them'],
  [{ ids: ['\0'] }, 'filter.ids[0]', 'filter.ids[0] must be well-formed text without \\u0000'],
  [{ id: { to: '\0' } }, 'filter.id.to', 'filter.id.to must be well-formed text without \\u0000'],
  [{ tenant: '' }, 'filter.tenant', 'filter.tenant must not be empty'],
])('a bad filter of the morgue is told by its place in the body: %j', async (filter, field, detail) => {
  const { post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), { id: 'a' })
  for (const act of ['requeue', 'delete']) {
    const { status, json } = await post(below(queue, `/dead/${act}`), { filter })
    expect([status, json.field, json.detail]).toEqual([422, field, detail])
  }
})

test('a bad query of the morgue, a bad round and a bad id are told by their own names', async () => {
  const { get, post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), { id: 'a' })
  for (const [path, field] of [
    ['/dead?keys=x&ids=a', 'keys[0]'],
    [`/dead?keys=${'a'.repeat(32)}`, 'keys'],
    ['/dead?after=x', undefined],
    ['/results/a?round=x', undefined],
    ['/results/%00?round=1.1.0123456789abcdef', undefined],
    ['/jobs/%00', undefined],
  ] as const) {
    const { status, json } = await get(below(queue, path))
    expect([path, status, json.field]).toEqual([path, 400, field])
    expect(json.detail).not.toMatch(STRANGE)
  }
})

test('times of a job, and a result, are told by their names in JSON', async () => {
  const { post } = await open()
  const queue = name()
  const expired = { id: 'a', perform_in: 2_000, expires_in: 1_000 }
  const begin = 'expires_in must not be before `perform_in`: 1970'
  const pushed = await post(below(queue, '/jobs'), expired)
  expect([pushed.json.field, pushed.json.detail]).toEqual(['expires_in', expect.stringContaining(begin)])
  const many = await post(below(queue, '/jobs'), { jobs: [{ id: 'b' }, expired] })
  expect(many.json.detail).toContain(`jobs[1].${begin}`)
  await post(below(queue, '/jobs'), { id: 'a' })
  const [{ id, fence }] = (await post('/claim', { queues: queue })).json.jobs
  const completed = await post('/complete', { queue, id, fence, result: 'x'.repeat(1_100_000) })
  expect(completed.json.detail).toMatch(/^result must be at most 1 MiB/)
})

test('what a schema of the application says stays as it is', async () => {
  const problem = 'orders: `orderId` is missing'
  const validate = () => ({ issues: [{ message: problem }] })
  const schema = { '~standard': { version: 1, vendor: 'tests', validate } } as const
  const queue = defineQueue(name(), { schema: schema as never })
  const { post } = await open({ access: 'open', queues: [queue] })
  expect((await post(below(queue.name, '/jobs'), { id: 'a' })).json.detail).toContain(problem)
})
