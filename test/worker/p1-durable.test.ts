import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { Lockstep, type Queue } from '../../src/index.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { startPooler } from '../support/pooler.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** A commit to a row of jobs or processes, and its durability. That a process is quiet is only information for others. */
interface Commit {
  what: string
  level: string
}

/** Records each commit that changes a job or a process. */
async function noteCommits(sql: (text: string) => Promise<unknown>): Promise<void> {
  await sql(`CREATE TABLE commits (number bigserial, what text, level text)`)
  // The trigger is deferred, so it runs as a part of the commit.
  await sql(`CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO commits (what, level) VALUES (
        CASE
          WHEN TG_OP = 'UPDATE' AND to_jsonb(NEW) -> 'quiet' <> to_jsonb(OLD) -> 'quiet' THEN 'word'
          WHEN TG_TABLE_NAME = 'processes' THEN lower(TG_OP) || ' of a lease'
          WHEN TG_OP = 'INSERT' THEN 'push'
          WHEN TG_OP = 'DELETE' THEN 'completion'
          WHEN to_jsonb(NEW) ->> 'claimed_by' IS NOT NULL THEN 'claim'
          WHEN to_jsonb(NEW) ->> 'error' IS NOT NULL THEN 'failure'
          ELSE 'release'
        END,
        current_setting('synchronous_commit'));
      RETURN NULL;
    END $$`)
  for (const table of ['jobs', 'processes']) {
    await sql(`CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON lockstep.${table}
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_commit()`)
  }
}

beforeAll(() => noteCommits((text) => env.sql(text)))

/** Applies to sessions that begin from now on, until the test ends. */
async function setDefault(level: string): Promise<void> {
  const [{ name }] = (await env.sql('SELECT current_database() AS name')) as [{ name: string }]
  await env.sql(`ALTER DATABASE ${name} SET synchronous_commit = ${level}`)
  env.later(() => env.sql(`ALTER DATABASE ${name} RESET synchronous_commit`))
  await env.sql('TRUNCATE commits')
}

async function commits(): Promise<string[]> {
  const rows = await env.sql<Commit>(
    "SELECT DISTINCT what, level FROM commits WHERE what <> 'word' ORDER BY what, level",
  )
  return rows.map(({ what, level }) => `${what}: ${level}`)
}

async function lockstepThrough(way: 'directly' | 'through a pooler'): Promise<Lockstep> {
  const { connectionString, logger } = env
  const pooler = way === 'directly' ? undefined : await startPooler(connectionString)
  const lockstep = new Lockstep({
    connectionString: pooler?.connectionString ?? connectionString,
    directUrl: connectionString,
    logger,
  })
  env.later(() => pooler?.close())
  env.later(() => lockstep.close())
  return lockstep
}

/** Plays a round that succeeds, one that fails at first and one that is released. */
async function playAll(lockstep: Lockstep, make: (perform: Parameters<typeof env.queue>[0]) => Queue) {
  const seen = new Set<string>()
  const queue = make({
    shards: 1,
    perform: async (batch, { signal }) => {
      const [id] = [...batch.keys()] as [string]
      if (id === 'fails' && !seen.has(id)) {
        seen.add(id)
        throw new Error('at first')
      }
      if (id === 'stays') await new Promise((_, reject) => signal.addEventListener('abort', reject))
    },
  })
  const worker = env.create({ queues: [queue], lease: 500 }, lockstep)
  await worker.start()
  const ended = next(worker, 'completed', ({ ids }) => ids.includes('fails'))
  await lockstep.enqueue(queue, [{ id: 'fails' }])
  await ended
  const started = next(worker, 'started', ({ ids }) => ids.includes('stays'))
  await lockstep.enqueue(queue, [{ id: 'stays' }])
  await started
  await eventually(async () =>
    expect(await commits()).toContainEqual(expect.stringMatching('update of a lease')),
  )
  await worker.stop()
}

const ROUNDS = ['claim', 'completion', 'failure', 'release']
const LEASES = ['delete of a lease', 'insert of a lease', 'update of a lease']
const at = (level: string, whats: string[]) => whats.map((what) => `${what}: ${level}`)

describe.each(['directly', 'through a pooler'] as const)('%s', (way) => {
  test('P1: with synchronous_commit = off, no crash of the server takes a claim, its end or a lease back', async () => {
    await setDefault('off')
    const lockstep = await lockstepThrough(way)
    await playAll(lockstep, (options) => env.queue(options!))
    expect(await commits()).toEqual([...at('on', ROUNDS), ...at('on', LEASES), 'push: off'].sort())
  })

  test('P1: nor where a handler sets it in its transaction', async () => {
    await setDefault('on')
    const lockstep = await lockstepThrough(way)
    const queue = env.transactional({
      perform: async (_, { tx }) => void (await tx.query('SET LOCAL synchronous_commit = off')),
    })
    const worker = env.create({ queues: [queue] }, lockstep)
    await worker.start()
    const completed = next(worker, 'completed')
    await lockstep.enqueue(queue, { id: 'a' })
    await completed
    expect(await commits()).toContain('completion: on')
  })

  test.each(['local', 'remote_write', 'remote_apply'])('%s survives a crash, and stays', async (level) => {
    await setDefault(level)
    const lockstep = await lockstepThrough(way)
    await playAll(lockstep, (options) => env.queue(options!))
    expect(await commits()).toEqual(at(level, [...ROUNDS, ...LEASES, 'push']).sort())
  })
})

describe('where it is turned off while a worker runs', () => {
  const GATE = 42
  let server: EmbeddedServer
  let admin: pg.Client

  beforeAll(async () => {
    server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
    admin = new pg.Client(server.connectionString)
    await admin.connect()
    const lockstep = new Lockstep({ connectionString: server.connectionString })
    await lockstep.migrate()
    await lockstep.close()
    await noteCommits((text) => admin.query(text))
    await admin.query(`CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(${GATE}); RETURN NULL; END $$`)
    await admin.query(`CREATE TRIGGER gate AFTER UPDATE OR DELETE ON lockstep.jobs
      FOR EACH ROW EXECUTE FUNCTION pass_gate()`)
    return async () => {
      await admin.end()
      await server.stop()
    }
  })

  async function setDefault(level: 'on' | 'off'): Promise<void> {
    await admin.query(`ALTER SYSTEM SET synchronous_commit = ${level}`)
    await admin.query('SELECT pg_reload_conf()')
    await eventually(async () =>
      expect((await admin.query('SHOW synchronous_commit')).rows).toEqual([{ synchronous_commit: level }]),
    )
  }

  /**
   * Changes the default while an operation waits at the gate. Its session hears of that before its COMMIT, which is a
   * message of its own.
   */
  async function turnOffMeanwhile(begin: () => unknown): Promise<void> {
    await setDefault('on')
    await admin.query(`SELECT pg_advisory_lock(${GATE})`)
    await begin()
    await eventually(async () => {
      const { rows } = await admin.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)
      expect(rows).toHaveLength(1)
    })
    await setDefault('off')
    await admin.query(`SELECT pg_advisory_unlock(${GATE})`)
  }

  test.each(['directly', 'through a pooler'])(
    'P1: no crash takes a claim, its end or a lease back, %s',
    async (way) => {
      const { connectionString } = server
      const pooler = way === 'directly' ? undefined : await startPooler(connectionString)
      env.later(() => pooler?.close())
      const lockstep = new Lockstep({
        connectionString: pooler?.connectionString ?? connectionString,
        directUrl: connectionString,
        logger: env.logger,
      })
      env.later(() => lockstep.close())
      const gate = new Gate()
      const queue = env.queue({ perform: () => gate.opened })
      await setDefault('on')
      const worker = env.create({ queues: [queue], lease: 500 }, lockstep)
      await worker.start()
      await admin.query('TRUNCATE commits')
      const started = next(worker, 'started')
      await turnOffMeanwhile(() => lockstep.enqueue(queue, { id: 'a' }))
      await started
      const completed = next(worker, 'completed')
      await turnOffMeanwhile(() => gate.open())
      await completed
      const ofKind = async (kind: string) =>
        (await admin.query<Commit>('SELECT level FROM commits WHERE what = $1', [kind])).rows
      expect(await ofKind('claim')).toEqual([{ level: 'on' }])
      expect(await ofKind('completion')).toEqual([{ level: 'on' }])
      const renewals = (await ofKind('update of a lease')).length
      await eventually(async () =>
        expect((await ofKind('update of a lease')).length).toBeGreaterThan(renewals + 1),
      )
      expect(new Set((await ofKind('update of a lease')).map(({ level }) => level))).toEqual(new Set(['on']))
    },
  )
})
