import { expect, test } from 'vitest'
import { prefix, useRoles } from './role-environment.ts'

const env = useRoles()

const CALLS = [
  `create_queue('from SQL')`,
  `create_queue('with shards', 24)`,
  `enqueue('from SQL', 'a')`,
  `enqueue('from SQL', 17, '{}', score => 2, headers => '{}')`,
  `enqueue_many('from SQL', ARRAY['b'])`,
  `enqueue_many('from SQL', ARRAY[18]::text[], _scores => ARRAY[1])`,
]

test('a producer may create a queue and push into it from SQL, in every form', async () => {
  const producer = env.session('producer')
  for (const call of CALLS) await producer.query(`SELECT ${prefix}.${call}`)
  const { items } = await env.lockstep('viewer').find('from SQL', { by: 'id' })
  expect(items.map(({ id }) => id).sort()).toEqual(['17', '18', 'a', 'b'])
})

test.each(['worker', 'viewer'])('a %s may not push from SQL, in any form', async (name) => {
  for (const call of CALLS.filter((call) => call.startsWith('enqueue')))
    await expect(env.session(name).query(`SELECT ${prefix}.${call}`)).rejects.toMatchObject({ code: '42501' })
})

test('the right to push is needed for the text of an id as for others', async () => {
  const stranger = `"${env.logins.role('stranger')}"`
  await env.session('owner').query(`
    GRANT USAGE ON SCHEMA ${prefix} TO ${stranger};
    GRANT EXECUTE ON FUNCTION ${prefix}.enqueue(text, anynonarray, jsonb, float8, timestamptz, integer, jsonb, text, timestamptz) TO ${stranger}`)
  env.later(() =>
    env.session('owner').query(`
      REVOKE ALL ON SCHEMA ${prefix} FROM ${stranger}; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ${prefix} FROM ${stranger}`),
  )
  await expect(
    env.session('stranger').query(`SELECT ${prefix}.enqueue('from SQL', 17)`),
  ).rejects.toMatchObject({ code: '42501' })
})
