import { afterAll, beforeAll, expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { previousDefinitions } from '../support/previous-build.ts'
import { Logins } from './logins.ts'

let logins: Logins

const quoted = (name: string) => `"${logins.role(name)}"`

beforeAll(async () => {
  logins = await Logins.open()
  for (const name of ['the owner', 'pusher', 'passer', 'stranger']) await logins.create(name)
  await logins.create('migrator', 'SUPERUSER')
  await logins.asAdmin(previousDefinitions())
  await logins.asAdmin(`
    GRANT ALL ON SCHEMA lockstep TO ${quoted('the owner')};
    GRANT USAGE ON SCHEMA lockstep TO ${quoted('pusher')}, ${quoted('passer')}, ${quoted('stranger')};
    GRANT ALL ON ALL TABLES IN SCHEMA lockstep TO ${quoted('the owner')};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA lockstep TO ${quoted('the owner')};
    ALTER FUNCTION lockstep.enqueue OWNER TO ${quoted('the owner')};
    GRANT EXECUTE ON FUNCTION lockstep.enqueue TO ${quoted('pusher')};
    GRANT EXECUTE ON FUNCTION lockstep.enqueue TO ${quoted('passer')} WITH GRANT OPTION;
    SELECT lockstep.create_queue('granted')`)
  const lockstep = new Lockstep({ connectionString: logins.url('migrator') })
  await lockstep.migrate()
  await lockstep.close()
})
afterAll(() => logins?.close())

const FORMS = ['enqueue', 'enqueue', 'enqueue_returning_void']

test('who was granted enqueue of the release before may call all its forms, and no one else', async () => {
  for (const name of ['pusher', 'passer']) {
    await logins.pool(name).query(`SELECT lockstep.enqueue('granted', 'a'), lockstep.enqueue('granted', 17)`)
    await logins.pool(name).query(`SELECT lockstep.enqueue_returning_void('granted', 'b')`)
  }
  const rows = await logins.asAdmin(
    `SELECT p.proname AS name, a.grantee::regrole::text AS role, a.is_grantable AS passes
     FROM pg_proc p, aclexplode(p.proacl) a
     WHERE p.proname = ANY ($1) AND a.grantee <> p.proowner ORDER BY role, p.oid::regprocedure::text`,
    [FORMS],
  )
  expect(rows).toEqual([
    ...FORMS.map((name) => ({ name, role: quoted('passer'), passes: true })),
    ...FORMS.map((name) => ({ name, role: quoted('pusher'), passes: false })),
  ])
  for (const form of FORMS)
    await expect(
      logins.pool('stranger').query(`SELECT lockstep.${form}('granted', 'a')`),
    ).rejects.toMatchObject({ code: '42501' })
})

test('it keeps its owner, whose rights it uses, whoever migrates', async () => {
  const rows = await logins.asAdmin(
    `SELECT proname AS name, proowner::regrole::text AS owner FROM pg_proc WHERE proname = ANY ($1) ORDER BY name`,
    [FORMS],
  )
  expect(rows).toEqual(FORMS.map((name) => ({ name, owner: quoted('the owner') })))
})
