import { beforeAll, expect, test } from 'vitest'
import { backends } from '../support/backends.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

beforeAll(async () => {
  // The first completion takes long enough for its connection to go silent meanwhile.
  await env.sql('CREATE SEQUENCE completions; CREATE TABLE told (may_idle text)')
  await env.sql(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('public.completions') = 1 THEN PERFORM pg_sleep(2); END IF;
      INSERT INTO public.told VALUES (current_setting('idle_in_transaction_session_timeout'));
      RETURN NULL;
    END $$`)
})

const waitingFor = (event: 'PgSleep' | 'relation') =>
  env.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE wait_event = '${event}' AND datname = current_database()`,
  )

const asleep = () => waitingFor('PgSleep')

test('P8: a connection that goes silent with a completion in it keeps no row, no process and no shard', async () => {
  await env.sql(
    'CREATE TRIGGER dawdle AFTER DELETE ON lockstep.jobs FOR EACH STATEMENT EXECUTE FUNCTION dawdle()',
  )
  env.later(() => env.sql('DROP TRIGGER dawdle ON lockstep.jobs'))
  const { network, lockstep } = await env.distant()
  const queue = env.transactional({ perform() {} })
  const worker = env.create({ queues: [queue], lease: 3_000 }, lockstep)
  await worker.start()
  env.later(() => worker.stop())
  const completed = next(worker, 'completed', () => true, 40_000)
  await env.lockstep.enqueue(queue, { id: 'a' })
  await eventually(async () => expect(await asleep()).toHaveLength(1))
  network.strand()
  expect(await completed).toMatchObject({ ids: ['a'] })
  // The worker's former registration is gone too, with its claims.
  await eventually(async () => expect(await env.sql('SELECT FROM lockstep.processes')).toHaveLength(1))
  // If no worker lives to end the session, the server does.
  expect(await env.sql('SELECT may_idle FROM told')).toEqual([{ may_idle: '1min' }])
}, 60_000)

test('R12: a lock connection that goes silent keeps no shards while a round of the same worker goes on', async () => {
  const { network, lockstep } = await env.distant()
  const gate = new Gate()
  env.later(() => gate.open())
  const long = env.queue({ shards: 1, perform: () => gate.opened })
  const queue = env.queue({ perform() {} })
  const worker = env.create({ queues: [long, queue] }, lockstep)
  await worker.start()
  const { processId } = worker
  const started = next(worker, 'started')
  await env.lockstep.enqueue(long, { id: 'long' })
  await started
  const [former] = await backends(env, 'lock')
  network.strand()
  await eventually(async () => {
    const locks = await backends(env, 'lock')
    expect(locks).toHaveLength(1)
    expect(locks).not.toContain(former)
  }, 30_000)
  const completed = next(worker, 'completed', ({ queue: name }) => name === queue.name)
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  // The former registration stays for as long as the round runs, so no other process would have ended its session.
  expect(worker.processId).not.toBe(processId)
  const rows = await env.sql('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])
  expect(rows).toHaveLength(1)
}, 60_000)

test('a start during which every connection goes silent fails, and can be stopped', async () => {
  const { network, lockstep } = await env.distant()
  const queue = env.queue({ perform() {} })
  const holder = await env.session()
  await holder.query('BEGIN; LOCK TABLE lockstep.queues')
  const worker = env.create({ queues: [queue] }, lockstep)
  const started = worker.start().then(
    () => 'started',
    (error: { code?: string }) => error.code,
  )
  // By now, it has connected whatever a start connects, and waits for its queue.
  await eventually(async () => {
    expect(await backends(env, 'listen')).toHaveLength(1)
    // Its other pool connections, the one for locks and the one for the lease.
    expect((await backends(env, 'pool')).length).toBeGreaterThanOrEqual(3)
    expect(await waitingFor('relation')).toHaveLength(1)
  })
  const stopped = worker.stop()
  network.strand()
  await holder.query('ROLLBACK')
  expect(await started).toBe('LOCKSTEP_CONNECTION')
  expect(await stopped).toBe(true)
}, 40_000)

test('sessions that went silent and hold nothing end by themselves while a round of the worker goes on', async () => {
  const { network, lockstep } = await env.distant()
  const gate = new Gate()
  env.later(() => gate.open())
  const long = env.queue({ shards: 1, perform: () => gate.opened })
  const worker = env.create({ queues: [long, env.queue({ perform() {} })] }, lockstep)
  await worker.start()
  const { processId } = worker
  const started = next(worker, 'started')
  await env.lockstep.enqueue(long, { id: 'long' })
  await started
  const kinds = ['lock', 'lease', 'listen'] as const
  const direct = (await Promise.all(kinds.map((kind) => backends(env, kind)))).flat()
  expect(direct).toHaveLength(3)
  network.strand()
  const left = () => env.sql('SELECT query FROM pg_stat_activity WHERE pid = ANY ($1)', [direct])
  await eventually(async () => expect(await left()).toEqual([]), 100_000)
  // The former registration stays for as long as the round runs, so no other process has ended its session.
  const rows = await env.sql('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])
  expect(rows).toHaveLength(1)
}, 150_000)
