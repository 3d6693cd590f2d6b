import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import type { SchemaMigration } from '../../migrations/index.ts'

/** Collects the statements of a migration without running them. */
export async function record(migration: SchemaMigration, schema: string): Promise<string[]> {
  const statements: string[] = []
  const recorder = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (inner) => new PostgresIntrospector(inner),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => {
      if (query.parameters.length > 0) throw new Error(`a migration can have no parameters: ${query.sql}`)
      statements.push(query.sql)
    },
  })
  await migration.up(recorder.withSchema(schema), schema)
  return statements
}
