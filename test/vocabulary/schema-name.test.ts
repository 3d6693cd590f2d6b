import { expect, test } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { checkSchemaName, quoteIdentifier } from '../../src/postgres/schema-name.ts'

test.each(['lockstep', 'Work Place', 'select', 'a'.repeat(63), 'é'.repeat(31)])(
  'the name of a schema may be any Postgres takes: %s',
  (schema) => expect(checkSchemaName(schema)).toBe(schema),
)

test.each([
  '',
  'a"b',
  "a'b",
  'a$b',
  'a\\b',
  'a\nb',
  'a\u0000',
  'pg_mine',
  'information_schema',
  'é'.repeat(32),
  7,
  null,
])('the name of a schema is refused where it can’t stand in a function: %j', (schema) => {
  expect(() => checkSchemaName(schema as string)).toThrow(/^schema must be 1 to 63 bytes of text/)
  const options = { connectionString: 'postgres://nowhere', schema: schema as string }
  expect(() => new Lockstep(options)).toThrow(expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION' }))
})

test('an identifier is quoted', () => {
  expect(quoteIdentifier('Work "Place"')).toBe('"Work ""Place"""')
})
