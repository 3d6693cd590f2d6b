import type pg from 'pg'

/**
 * Excludes what runs each statement in its own transaction: pools, which alone have `totalCount`, and TypeORM's DataSource,
 * which alone has `createQueryRunner`.
 */
interface Queryable {
  query(text: string, values?: unknown[]): Promise<unknown>
  readonly totalCount?: never
  readonly createQueryRunner?: never
}

interface KyselyTransaction {
  readonly isTransaction: true
  // biome-ignore lint/suspicious/noExplicitAny: of whatever version
  executeQuery(query: any): Promise<unknown>
}

/** Drizzle's databases have no `rollback`. */
interface DrizzleTransaction {
  execute(query: never): unknown
  rollback(): never
}

/** Knex instances are never completed. */
interface KnexTransaction {
  raw: unknown
  isCompleted(): boolean
}

/** Of `sql.begin`, or a connection of `sql.reserve`. */
type PostgresJsTransaction = { unsafe(text: string, values?: never[]): unknown } & (
  | { savepoint: unknown }
  | { release: unknown }
)

interface SequelizeTransaction {
  commit(): Promise<void>
  rollback(): Promise<void>
  afterCommit(run: never): void
}

interface MikroOrmEntityManager {
  getTransactionContext(): unknown
  isInTransaction(): boolean
}

/** In a transaction, Prisma's client has no `$connect`. */
interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>
  readonly $connect?: never
}

/**
 * What `tx` accepts: a `pg` client between BEGIN and COMMIT; a transaction of Kysely, Drizzle (over node-postgres or
 * postgres.js), Prisma, Knex, postgres.js, TypeORM (its manager or QueryRunner), Sequelize or MikroORM (its EntityManager); or
 * any object whose `query(text, values)` runs a statement in an open transaction, with texts and nulls as values.
 */
export type EnqueueTransaction =
  | pg.ClientBase
  | Queryable
  | KyselyTransaction
  | DrizzleTransaction
  | KnexTransaction
  | PostgresJsTransaction
  | SequelizeTransaction
  | MikroOrmEntityManager
  | PrismaTransaction
