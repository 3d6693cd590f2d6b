import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { migrationSql } from '../../src/postgres/migrate.ts'
import { quoteIdentifier } from '../../src/postgres/schema-name.ts'
import { prefix, useRoles } from './role-environment.ts'

const env = useRoles()

describe('what runs with the owner’s rights', () => {
  test('is enqueue of text, enqueue_many, what creates and grows queues, and what trims and notes, with a pinned search_path', async () => {
    const rows = await env.logins.asAdmin(
      `SELECT proname, proconfig[1] AS path FROM pg_proc WHERE pronamespace = $1::regnamespace AND prosecdef ORDER BY 1`,
      [prefix],
    )
    expect(rows).toEqual([
      { proname: 'add_fairness', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'create_queue', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'end_leases', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_many', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_many_without_expiries', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_many_without_tenants', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_returning_void', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_without_expiry', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'enqueue_without_tenant', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'find_tokens', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'grow_queue', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'keep_results', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'note_held', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'note_key', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'note_taken', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'note_tenant_waits', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'note_timeline', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'recount_key', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'remove_expired', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'result', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'round_of', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'set_fairness', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'set_limits', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'take_quota', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'take_within_limits', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'tenant_lanes_of', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'throttled_tenants', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'trim_audit', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'trim_keys', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'trim_limits', path: 'search_path=pg_catalog, pg_temp' },
      {
        proname: 'trim_reply_queues',
        path: 'search_path=pg_catalog, pg_temp',
      },
      { proname: 'trim_results', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'trim_tenant_lanes', path: 'search_path=pg_catalog, pg_temp' },
      { proname: 'trim_tenants', path: 'search_path=pg_catalog, pg_temp' },
    ])
  })

  /** Reports whose rights it ran with. */
  const trap = (schema: string) => `
    CREATE FUNCTION ${schema}.spring() RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
      RAISE NOTICE 'sprung by %', current_user;
      RETURN true;
    END $$;`

  /** A session that may set traps, and what its traps have reported. */
  async function trapper(name: string): Promise<{ client: pg.PoolClient; sprung: string[] }> {
    const client = await env.session(name).connect()
    env.later(() => client.release())
    const sprung: string[] = []
    client.on('notice', ({ message }) => message!.startsWith('sprung') && sprung.push(message!))
    return { client, sprung }
  }

  test('uses no function, operator or table of the caller’s', async () => {
    const evil = quoteIdentifier(env.logins.role('evil'))
    const me = quoteIdentifier(env.logins.role('producer'))
    await env.logins.asAdmin(`CREATE SCHEMA ${evil} AUTHORIZATION ${me}`)
    const { client, sprung } = await trapper('producer')
    await client.query(`
      GRANT USAGE ON SCHEMA ${evil} TO PUBLIC;
      ${trap(evil)}
      CREATE FUNCTION ${evil}.glue(integer, text) RETURNS text LANGUAGE sql AS $$ SELECT left($2, ${evil}.spring()::integer) $$;
      CREATE FUNCTION ${evil}.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT ${evil}.spring() $$;
      CREATE FUNCTION ${evil}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN ${evil}.spring() THEN now() END $$;
      CREATE FUNCTION ${evil}.octet_length(text) RETURNS integer LANGUAGE sql AS $$ SELECT ${evil}.spring()::integer $$;
      CREATE FUNCTION ${evil}.pg_notify(text, text) RETURNS void LANGUAGE sql AS $$ SELECT ${evil}.spring() $$;
      CREATE FUNCTION ${evil}.pg_try_advisory_lock(integer, integer) RETURNS boolean LANGUAGE sql AS $$ SELECT ${evil}.spring() $$;
      CREATE OPERATOR ${evil}.|| (FUNCTION = ${evil}.glue, LEFTARG = integer, RIGHTARG = text);
      CREATE OPERATOR ${evil}.= (FUNCTION = ${evil}.same, LEFTARG = text, RIGHTARG = text);
      CREATE TEMPORARY TABLE queues AS SELECT 1 AS queue_id, 'orders' AS name, 1 AS shards;
      CREATE TEMPORARY TABLE jobs (id text);
      SET search_path = ${evil}, pg_temp, pg_catalog`)
    await client.query(`SELECT 1 || ' ', 'a'::text = 'b'::text, clock_timestamp(), octet_length('a'::text)`)
    expect(sprung).toEqual(Array(4).fill(`sprung by ${env.logins.role('producer')}`))

    await client.query(`SELECT ${prefix}.create_queue('trapped', 3)`)
    await client.query(
      `SELECT ${prefix}.enqueue_many('trapped', '{a,b}', '{1,2}', '{1,2}', '{now,NULL}', '{0,1}')`,
    )
    await client.query(`SELECT ${prefix}.enqueue('trapped', 'a', '{"b": 1}')`)
    expect(sprung).toHaveLength(4)
    const { items } = await env.lockstep('viewer').find('trapped', { by: 'id' })
    expect(items.map(({ id, payloads }) => [id, payloads.length])).toEqual([
      ['a', 2],
      ['b', 1],
    ])
  })

  test('declares no variable of the caller’s types, however it was compiled', async () => {
    const { client, sprung } = await trapper('both')
    const names = ['wake', 'check_jobs', 'problem_of', 'put_jobs']
    const inner = `FUNCTION ${names.map((name) => `${prefix}.${name}`).join(', ')}`
    await env
      .session('owner')
      .query(`GRANT EXECUTE ON ${inner} TO ${quoteIdentifier(env.logins.role('both'))}`)
    env.later(() =>
      env.session('owner').query(`REVOKE ALL ON ${inner} FROM ${quoteIdentifier(env.logins.role('both'))}`),
    )
    await env.lockstep('producer').enqueue(defineQueue('typed'), { id: 'a' })
    await client.query(`
      CREATE TEMPORARY TABLE nothing ();
      ${trap('pg_temp')}
      CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.spring());
      CREATE DOMAIN pg_temp.record AS pg_catalog.text CHECK (pg_temp.spring())`)
    await client.query(`SELECT 'x'::text`)
    expect(sprung).toEqual([`sprung by ${env.logins.role('both')}`])
    // Compiles them for the session; for the last one, the rights go no further.
    await client.query(`SELECT ${prefix}.wake(1, '{a}')`)
    await client.query(`SELECT ${prefix}.check_jobs('{a}', '{1}', '{1}', '{now}', '{0}', ARRAY['{}'::jsonb])`)
    await expect(
      client.query(`SELECT ${prefix}.put_jobs(1, 1, '{a}', '{1}', '{1}', '{now}', '{0}', NULL, NULL, NULL)`),
    ).rejects.toMatchObject({ code: '42501' })
    await client.query(
      `SELECT ${prefix}.enqueue_many('typed', '{b}', '{1}', '{1}', '{now}', '{0}', ARRAY['{}'::jsonb])`,
    )
    await client.query(`SELECT ${prefix}.enqueue('typed', 'c', '1', 1, now(), 0, '{}')`)
    await client.query(
      `SELECT ${prefix}.grow_queue(q.queue_id, 20) FROM ${prefix}.queues q WHERE q.name = 'typed'`,
    )
    expect(sprung).toHaveLength(1)
  })

  test('is not the text of an id, whose type may be the caller’s', async () => {
    const evil = quoteIdentifier(env.logins.role('typist'))
    const me = env.logins.role('producer')
    await env.logins.asAdmin(`CREATE SCHEMA ${evil} AUTHORIZATION ${quoteIdentifier(me)}`)
    const { client, sprung } = await trapper('producer')
    await client.query(`
      ${trap(evil)}
      CREATE TYPE ${evil}.text AS ENUM ('no text');
      CREATE TYPE ${evil}.id AS (number bigint);
      CREATE FUNCTION ${evil}.shown(${evil}.id) RETURNS text LANGUAGE sql AS $$ SELECT 'shown ' || ${evil}.spring() $$;
      CREATE CAST (${evil}.id AS text) WITH FUNCTION ${evil}.shown(${evil}.id)`)
    await client.query(`SELECT ${prefix}.create_queue('typist'); SET search_path = ${evil}, pg_catalog`)
    await client.query(`SELECT ${prefix}.enqueue('typist', ROW(1)::${evil}.id)`)
    expect(sprung).toEqual([`sprung by ${me}`])
    const { items } = await env.lockstep('viewer').find('typist', { by: 'id' })
    expect(items.map(({ id }) => id)).toEqual(['shown true'])
  })

  test('is bound to nothing that stands on its owner’s search_path when it migrates', async () => {
    const evil = quoteIdentifier(env.logins.role('bait'))
    const me = quoteIdentifier(env.logins.role('owner'))
    await env.logins.asAdmin(
      `CREATE SCHEMA ${evil} AUTHORIZATION ${me}; ALTER ROLE ${me} SET search_path = ${evil}`,
    )
    env.later(() => env.logins.asAdmin(`ALTER ROLE ${me} RESET search_path`))
    const { client, sprung } = await trapper('owner')
    await client.query(`
      ${trap(evil)}
      CREATE FUNCTION ${evil}.glue(integer, text) RETURNS text LANGUAGE sql AS $$ SELECT left($2, ${evil}.spring()::integer) $$;
      CREATE OPERATOR ${evil}.|| (FUNCTION = ${evil}.glue, LEFTARG = integer, RIGHTARG = text)`)
    await client.query(`SELECT 1 || ':'`)
    expect(sprung).toHaveLength(1)
    await env.lockstep('owner', 'migrated').migrate()
    await client.query(await migrationSql('printed'))
    for (const schema of ['migrated', 'printed']) {
      const { rows } = await client.query(
        `SELECT ${schema}.wake_token(1, 2::smallint, to_timestamp(3)) AS head`,
      )
      expect(rows).toEqual([{ head: '1:2:3000000' }])
    }
    expect(sprung).toHaveLength(1)
    expect((await client.query('SHOW search_path')).rows).toEqual([{ search_path: evil }])
  })

  test('is nobody’s but the owner’s after a migration, and an earlier release’s functions are replaced', async () => {
    const pool = env.session('owner')
    await pool.query(`
      ALTER FUNCTION ${prefix}.enqueue_many SECURITY INVOKER RESET search_path;
      ALTER FUNCTION ${prefix}.create_queue SECURITY INVOKER RESET search_path;
      GRANT EXECUTE ON FUNCTION ${prefix}.enqueue_many, ${prefix}.create_queue TO PUBLIC`)
    await env.lockstep('owner').migrate()
    await env.lockstep('producer').enqueue(defineQueue('after an upgrade'), { id: 'a' })
    await env.logins.asAdmin(
      `GRANT USAGE ON SCHEMA ${prefix} TO ${quoteIdentifier(env.logins.role('stranger'))}`,
    )
    env.later(() =>
      env.logins.asAdmin(
        `REVOKE USAGE ON SCHEMA ${prefix} FROM ${quoteIdentifier(env.logins.role('stranger'))}`,
      ),
    )
    for (const call of [
      `enqueue_many('after an upgrade', '{a}', '{1}', '{1}', '{now}', '{0}')`,
      `create_queue('mine')`,
    ])
      await expect(env.session('stranger').query(`SELECT ${prefix}.${call}`)).rejects.toMatchObject({
        code: '42501',
      })
  })
})
