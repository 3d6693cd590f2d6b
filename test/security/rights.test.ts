import type pg from 'pg'
import { expect, test } from 'vitest'
import { defineQueue, Lockstep, type Worker } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { type Right, requireRights, rightsOf } from '../../src/postgres/rights.ts'
import { prefix, SCHEMA, useRoles } from './role-environment.ts'

const env = useRoles()
const GRANTED = { worker: 'may work', gateway: 'may serve' } as const
type Name = keyof typeof GRANTED
const NAMES = Object.keys(GRANTED) as Name[]
const role = (name: Name) => `"${env.logins.role(GRANTED[name])}"`
let owner: pg.Pool | undefined

/** GRANT … TO, or REVOKE … FROM, a role. */
function statement(
  verb: 'GRANT' | 'REVOKE',
  { kind, name, privilege, column }: Right,
  from: Name = 'worker',
): string {
  const what = column ? `${privilege} (${column})` : privilege
  return `${verb} ${what} ON ${kind} ${prefix}.${name} ${verb === 'GRANT' ? 'TO' : 'FROM'} ${role(from)}`
}

/** In one session: each right is taken and given back, and the server has 200 connections for all tests. */
async function asOwner(text: string): Promise<void> {
  owner ??= env.session('owner')
  await owner.query(text)
}

function create(logged: string[] = []): Worker {
  const note = (_: object, message: string) => void logged.push(message)
  const logger = { debug() {}, info() {}, warn: note, error: note }
  const lockstep = new Lockstep({ connectionString: env.logins.url('worker'), schema: SCHEMA, logger })
  env.later(() => lockstep.close())
  const worker = lockstep.createWorker({
    queues: [defineQueue('watched', { perform() {} })],
    ...{ lease: 1_000, rebalanceInterval: 100, poll: 100, shutdownTimeout: 100 },
  })
  env.later(() => worker.stop())
  return worker
}

test('the owner of a schema may migrate it, without the right to create schemas', async () => {
  await env.logins.asAdmin(`CREATE SCHEMA owned AUTHORIZATION "${env.logins.role('stranger')}"`)
  env.later(() => env.logins.asAdmin('DROP SCHEMA owned CASCADE'))
  expect(await env.lockstep('stranger', 'owned').migrate()).toMatchObject({ defined: true })
})

test.each(NAMES)(
  'the rights a %s asks for are those that `lockstep roles` gave its role, each one',
  async (name) => {
    const inCatalog = await env.logins.asAdmin(
      `SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.relname::text AS name, a.privilege_type AS privilege, NULL AS column
     FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = $1::regnamespace AND a.grantee = $2::regrole
     UNION ALL
     SELECT 'TABLE', c.relname, a.privilege_type, t.attname::text
     FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
     WHERE c.relnamespace = $1::regnamespace AND a.grantee = $2::regrole
     UNION ALL
     SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, p.proname, a.privilege_type, NULL
     FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace = $1::regnamespace AND a.grantee = $2::regrole`,
      [prefix, role(name)],
    )
    const text = (right: unknown) => JSON.stringify(right)
    const rights = (await rightsOf(name)).map((right) => ({ ...right, name: right.name.replace(/\(.*/, '') }))
    expect(rights.map(text).sort()).toEqual(inCatalog.map(text).sort())
    await requireRights(new Database(env.session(name), SCHEMA), name)
  },
)

test.each(NAMES)('each that is missing of a %s is named, with what to do', async (of) => {
  const database = new Database(env.session(of), SCHEMA)
  for (const right of await rightsOf(of)) {
    await asOwner(statement('REVOKE', right, of))
    const { kind, name, privilege, column } = right
    const told = `lacks rights that a ${of} needs: ${privilege}${column ? ` (${column})` : ''} on ${kind.toLowerCase()} ${prefix}.${name}; run the SQL from \`lockstep roles\``
    await expect(requireRights(database, of)).rejects.toMatchObject({
      code: 'LOCKSTEP_PERMISSION',
      message: expect.stringContaining(told),
    })
    await asOwner(statement('GRANT', right, of))
  }
  await requireRights(database, of)
})

test('a worker without one does not start, and keeps no shard from others', async () => {
  const claim: Right = { kind: 'FUNCTION', name: 'claim', privilege: 'EXECUTE', column: null }
  await asOwner(statement('REVOKE', claim))
  env.later(() => asOwner(statement('GRANT', claim)))
  await expect(create().start()).rejects.toMatchObject({ code: 'LOCKSTEP_PERMISSION' })
  const held = await env.logins.asAdmin(
    `SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = '${prefix}.jobs'::regclass
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  )
  expect(held).toEqual([])
  expect(await env.logins.asAdmin(`SELECT FROM ${prefix}.processes`)).toEqual([])
})

test.each<[string, Right, RegExp]>([
  ['claims', { kind: 'FUNCTION', name: 'claim', privilege: 'EXECUTE', column: null }, /^claiming failed$/],
  [
    'looks',
    { kind: 'FUNCTION', name: 'survey', privilege: 'EXECUTE', column: null },
    /^looking for due jobs failed$/,
  ],
  [
    'compares',
    { kind: 'TABLE', name: 'release', privilege: 'SELECT', column: null },
    /^comparing processes and shards failed$/,
  ],
  [
    'renews its lease',
    { kind: 'TABLE', name: 'processes', privilege: 'UPDATE', column: 'expires_at' },
    /^the lease can’t be renewed/,
  ],
])('a worker that loses a right while it %s says so, in its log and to listeners', async (_, right, line) => {
  const logged: string[] = []
  const worker = create(logged)
  await worker.start()
  const failure = new Promise<unknown>((resolve) => worker.once('failure', resolve))
  await asOwner(statement('REVOKE', right))
  env.later(() => asOwner(statement('GRANT', right)))
  await env.lockstep('producer').enqueue(defineQueue('watched'), { id: right.name })
  expect(await failure).toMatchObject({
    code: 'LOCKSTEP_PERMISSION',
    message: expect.stringContaining('lockstep roles'),
  })
  // A full look may be part of a comparison, which fails first.
  await expect.poll(() => logged, { timeout: 10_000 }).toContainEqual(expect.stringMatching(line))
})
