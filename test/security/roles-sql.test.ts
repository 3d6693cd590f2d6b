import { describe, expect, test } from 'vitest'
import { DEFAULT_ROLES, rolesSql } from '../../src/postgres/roles.ts'
import { quoteIdentifier } from '../../src/postgres/schema-name.ts'
import { runHere } from '../cli/in-process.ts'
import { prefix, SCHEMA, useRoles } from './role-environment.ts'

const env = useRoles()

describe('the SQL of the roles', () => {
  const state = () =>
    env.logins.asAdmin(
      `SELECT relname AS name, relacl::text[] AS acl FROM pg_class WHERE relnamespace = $1::regnamespace
       UNION ALL SELECT proname, proacl::text[] FROM pg_proc WHERE pronamespace = $1::regnamespace
       UNION ALL SELECT nspname, nspacl::text[] FROM pg_namespace WHERE oid = $1::regnamespace
       UNION ALL SELECT attrelid::regclass || attname, attacl::text[] FROM pg_attribute
       WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = $1::regnamespace) AND attacl IS NOT NULL
       ORDER BY name, acl`,
      [prefix],
    )

  test('changes nothing when it is run again, also after another migration, and takes back what is too much', async () => {
    const before = await state()
    await env.session('owner').query(env.sql)
    await env.lockstep('owner').migrate()
    expect(await state()).toEqual(before)
    const names = ['may look', 'may serve'].map((name) => quoteIdentifier(env.logins.role(name))).join(', ')
    await env.session('owner').query(`
      GRANT ALL ON ${prefix}.jobs, ${prefix}.dead, ${prefix}.migrations TO ${names};
      GRANT ALL ON SCHEMA ${prefix} TO ${names}; GRANT ALL ON SEQUENCE ${prefix}.pushes TO ${names};
      GRANT EXECUTE ON FUNCTION ${prefix}.kill TO PUBLIC, ${names}; GRANT UPDATE (shards) ON ${prefix}.queues TO ${names};
      GRANT SELECT ON ${prefix}.api_tokens TO ${names}; GRANT ALL ON PROCEDURE ${prefix}.refuse_transaction TO ${names}`)
    await env.session('owner').query(env.sql)
    expect(await state()).toEqual(before)
  })

  test('takes any name, quoted', async () => {
    const names = [`o'neil "x"; --`, '$$ \\ %I', '@schema@', '@producer@'].map((name) =>
      env.logins.role(name),
    )
    const [producer, worker, viewer, gateway] = names as [string, string, string, string]
    const text = await rolesSql(SCHEMA, { producer, worker, viewer, gateway })
    await env.session('owner').query(text)
    const rows = await env.logins.asAdmin(
      `SELECT rolname, has_function_privilege(oid, $2::regproc, 'EXECUTE') AS may FROM pg_roles WHERE rolname = ANY ($1)`,
      [names, `${prefix}.enqueue_many`],
    )
    expect(rows).toHaveLength(4)
    for (const { rolname, may } of rows) expect(may).toBe(rolname === producer || rolname === gateway)
  })

  test.each(['public', 'none', 'pg_monitor', '', 'a\nb', 'x'.repeat(64), 'a$roles$b', '\ud800'])(
    'refuses a role named %j',
    async (producer) => {
      await expect(rolesSql(SCHEMA, { ...DEFAULT_ROLES, producer })).rejects.toThrow(/^a role must be/)
    },
  )

  test('is what `lockstep roles` prints, and nothing else, without a database', async () => {
    const printed = await runHere(['roles', '--schema', SCHEMA, '--viewer', 'some one'])
    const refused = await runHere(['roles', '--producer', 'public'])
    const expected = await rolesSql(SCHEMA, { ...DEFAULT_ROLES, viewer: 'some one' })
    expect(printed).toEqual({ code: 0, stdout: `${expected}\n`, stderr: '' })
    expect(refused).toMatchObject({ code: 2, stdout: '' })
  })
})
