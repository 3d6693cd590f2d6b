import { expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { type Backend, backends } from '../support/backends.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/**
 * We set our own limit for this where no handler runs: a session that idles there is not the application's, and holds
 * rows.
 */
const IDLE = 'idle_in_transaction_session_timeout'
const DIRECT: Backend[] = ['lock', 'lease', 'listen']

/** Applies to sessions that begin from now on, until the test ends. */
async function setDefaults(settings: Record<string, string>): Promise<void> {
  const [{ name }] = (await env.sql('SELECT current_database() AS name')) as [{ name: string }]
  for (const [setting, value] of Object.entries(settings)) {
    await env.sql(`ALTER DATABASE ${name} SET ${setting} = '${value}'`)
    env.later(() => env.sql(`ALTER DATABASE ${name} RESET ${setting}`))
  }
}

function open(connectionString = env.connectionString): Lockstep {
  const lockstep = new Lockstep({ connectionString, logger: env.logger })
  env.later(() => lockstep.close())
  return lockstep
}

async function direct(): Promise<number[]> {
  const pids = await Promise.all(DIRECT.map((kind) => backends(env, kind)))
  return pids.flat().sort()
}

test.each([
  ['', ''],
  ['and has options of its own', 'options=-c%20geqo%3Doff'],
])('a worker that has nothing to do keeps its sessions where idle ones are ended %s', async (_, search) => {
  await setDefaults({ idle_session_timeout: '300ms' })
  const queue = env.queue({ perform() {} })
  const url = new URL(env.connectionString)
  url.search = search
  const worker = env.create({ queues: [queue], rebalanceInterval: 3_000, poll: 3_000 }, open(url.href))
  await worker.start()
  const before = await direct()
  expect(before).toHaveLength(DIRECT.length)
  await eventually(async () => {
    const rows = await env.sql<{ idle: boolean }>(
      `SELECT state = 'idle' AND clock_timestamp() - state_change > '1 s' AS idle FROM pg_stat_activity
       WHERE pid = ANY ($1) AND application_name = 'pg-lockstep'`,
      [before],
    )
    expect(rows.map(({ idle }) => idle)).toEqual(DIRECT.map(() => true))
  })
  const completed = next(worker, 'completed')
  // Over a session without that limit: one of the environment's Lockstep would be ended, and told, in the next test.
  await env.sql(`SELECT lockstep.enqueue($1, 'a', '""')`, [queue.name])
  await completed
  expect(await direct()).toEqual(before)
  expect(env.warnings).toEqual([])
})

test('time-outs for the application’s statements hold in handlers’ transactions, and nowhere else', async () => {
  const [{ version }] = (await env.sql("SELECT current_setting('server_version_num')::int AS version")) as [
    { version: number },
  ]
  const names = [
    'statement_timeout',
    'lock_timeout',
    IDLE,
    ...(version >= 170_000 ? ['transaction_timeout'] : []),
  ]
  await setDefaults(Object.fromEntries(names.map((name) => [name, '30s'])))
  // The session of a completion records its settings.
  await env.sql('CREATE TABLE told (name text, value text)')
  await env.sql(`CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO public.told SELECT name, current_setting(name) FROM unnest(TG_ARGV::text[]) AS name;
      RETURN NULL;
    END $$`)
  await env.sql(
    `CREATE TRIGGER told AFTER UPDATE OF claimed_by ON lockstep.jobs FOR EACH STATEMENT EXECUTE FUNCTION tell(${names})`,
  )
  env.later(() => env.sql('DROP TRIGGER told ON lockstep.jobs; DROP FUNCTION tell; DROP TABLE told'))
  const found: string[][] = []
  const queue = env.transactional({
    async perform(_, { tx }) {
      const { rows } = await tx.query(
        'SELECT current_setting(name) AS value FROM unnest($1::text[]) AS name',
        [names],
      )
      found.push(rows.map(({ value }: { value: string }) => value))
      await tx.query('SET statement_timeout = 0; SET lock_timeout = 0')
    },
  })
  const worker = env.create({ queues: [queue], slots: 1 }, open())
  await worker.start()
  // Before the trigger is dropped: that takes a lock on the table, and could deadlock with the worker's locks on a
  // partition.
  env.later(() => worker.stop())
  for (const id of ['a', 'b']) {
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id })
    await completed
  }
  expect(found).toEqual([names.map(() => '30s'), names.map(() => '30s')])
  expect(await env.sql('SELECT DISTINCT name, value FROM told ORDER BY name')).toEqual(
    names.toSorted().map((name) => ({ name, value: name === IDLE ? '1min' : '0' })),
  )
})
