import { PrismaPg } from '@prisma/adapter-pg'
import { sql } from 'drizzle-orm'
import { drizzle as drizzleOnPg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOnPostgresJs } from 'drizzle-orm/postgres-js'
import createKnex from 'knex'
import * as kysely from 'kysely'
import * as kysely29 from 'kysely-0.29'
import pg from 'pg'
import postgres from 'postgres'
import 'reflect-metadata'
import { Sequelize, type Transaction as SequelizeTransaction } from 'sequelize'
import { DataSource, type EntityManager } from 'typeorm'
import { transactionsOf as drizzleTransactions } from '../../src/adapters/drizzle.ts'
import { transactionsOf as knexTransactions } from '../../src/adapters/knex.ts'
import { transactionsOf as kyselyTransactions } from '../../src/adapters/kysely.ts'
import { transactionsOf as postgresJsTransactions } from '../../src/adapters/postgres-js.ts'
import { transactionsOf as prismaTransactions } from '../../src/adapters/prisma.ts'
import { transactionsOf as sequelizeTransactions } from '../../src/adapters/sequelize.ts'
import { transactionsOf as typeOrmTransactions } from '../../src/adapters/typeorm.ts'
import { type AnyLibrary, library } from './adapter.ts'
import { mikroOrm } from './mikro-orm.ts'
import { type Prisma, PrismaClient } from './prisma/client/client.ts'

/** A pool that survives the end of its connections, as docs/transactions.md says. */
function poolOf(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

const onPg = library<pg.PoolClient>({
  name: 'pg',
  wording: {
    given: 'a Client',
    writable: 'begin its transaction with BEGIN READ WRITE',
  },
  packages: ['pg'],
  async open(connectionString) {
    const pool = poolOf(connectionString)
    return {
      async transaction(work) {
        const client = await pool.connect()
        await client.query('BEGIN')
        try {
          const result = await work(client)
          await client.query('COMMIT')
          return result
        } catch (error) {
          await client.query('ROLLBACK')
          throw error
        } finally {
          client.release()
        }
      },
      execute: (tx, text) => tx.query(text),
      mistakes: { 'a pg Pool': pool },
      close: () => pool.end(),
    }
  },
})

const onKysely = library<kysely.Transaction<unknown>>({
  name: 'Kysely 0.28',
  wording: {
    given: 'a Kysely transaction',
    callback: 'the trx that db.transaction().execute()',
    writable: "begin it with db.transaction().setAccessMode('read write')",
  },
  packages: ['kysely'],
  async open(connectionString) {
    const pool = poolOf(connectionString)
    const db = new kysely.Kysely<unknown>({ dialect: new kysely.PostgresDialect({ pool }) })
    return {
      transaction: (work) => db.transaction().execute(work),
      transactions: kyselyTransactions(db),
      execute: (tx, text) => tx.executeQuery(kysely.CompiledQuery.raw(text)),
      mistakes: { 'a Kysely instance': db },
      close: () => db.destroy(),
    }
  },
})

const onKysely29 = library<kysely29.Transaction<unknown>>({
  name: 'Kysely 0.29',
  wording: {
    given: 'a Kysely transaction',
    callback: 'the trx that db.transaction().execute()',
    writable: "begin it with db.transaction().setAccessMode('read write')",
  },
  packages: ['kysely-0.29'],
  async open(connectionString) {
    const pool = poolOf(connectionString)
    const db = new kysely29.Kysely<unknown>({ dialect: new kysely29.PostgresDialect({ pool }) })
    return {
      transaction: (work) => db.transaction().execute(work),
      transactions: kyselyTransactions(db),
      execute: (tx, text) => tx.executeQuery(kysely29.CompiledQuery.raw(text)),
      mistakes: { 'a Kysely instance': db },
      close: () => db.destroy(),
    }
  },
})

type DrizzleOnPg = Parameters<Parameters<ReturnType<typeof drizzleOnPg>['transaction']>[0]>[0]

const drizzle = library<DrizzleOnPg>({
  name: 'Drizzle on node-postgres',
  wording: {
    given: 'a Drizzle transaction',
    callback: 'the tx that db.transaction()',
    writable: "begin it with db.transaction(…, { accessMode: 'read write' })",
  },
  packages: ['drizzle-orm', 'pg'],
  async open(connectionString) {
    const pool = new pg.Pool({ connectionString })
    // While a handler has a client, the worker listens.
    pool.on('error', () => {})
    const db = drizzleOnPg(pool)
    return {
      transactions: drizzleTransactions(db),
      transaction: (work) => db.transaction(work),
      nested: (tx, work) => tx.transaction(work),
      execute: (tx, text) => tx.execute(sql.raw(text)),
      mistakes: { 'a Drizzle database': db },
      close: () => pool.end(),
    }
  },
})

type DrizzleOnPostgresJs = Parameters<Parameters<ReturnType<typeof drizzleOnPostgresJs>['transaction']>[0]>[0]

const drizzlePostgresJs = library<DrizzleOnPostgresJs>({
  name: 'Drizzle on postgres.js',
  wording: {
    given: 'a Drizzle transaction',
    callback: 'the tx that db.transaction()',
    writable: "begin it with db.transaction(…, { accessMode: 'read write' })",
  },
  packages: ['drizzle-orm', 'postgres'],
  async open(connectionString) {
    const client = postgres(connectionString, { onnotice: () => {} })
    const db = drizzleOnPostgresJs(client)
    return {
      transactions: drizzleTransactions(db),
      transaction: (work) => db.transaction(work),
      nested: (tx, work) => tx.transaction(work),
      execute: (tx, text) => tx.execute(sql.raw(text)),
      mistakes: { 'a Drizzle database': db },
      close: () => client.end(),
    }
  },
})

const postgresJs = library<postgres.TransactionSql>({
  name: 'postgres.js',
  wording: {
    given: 'a postgres.js transaction',
    callback: 'the sql that sql.begin()',
    writable: "begin it with sql.begin('read write', …)",
  },
  packages: ['postgres'],
  async open(connectionString) {
    const client = postgres(connectionString, { onnotice: () => {} })
    return {
      transaction: async (work) => (await client.begin(work)) as never,
      transactions: postgresJsTransactions(client),
      nested: async (tx, work) => (await tx.savepoint(work)) as never,
      execute: (tx, text) => tx.unsafe(text),
      mistakes: { 'a postgres.js instance': client },
      close: () => client.end(),
    }
  },
})

const prisma = library<Prisma.TransactionClient>({
  name: 'Prisma',
  wording: {
    given: 'a Prisma transaction',
    callback: 'the tx that prisma.$transaction()',
    writable: 'let its first statement be tx.$executeRawUnsafe("SET TRANSACTION READ WRITE")',
  },
  packages: ['@prisma/client', '@prisma/adapter-pg'],
  async open(connectionString) {
    const client = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })
    return {
      transaction: (work) => client.$transaction(work),
      transactions: prismaTransactions(client),
      execute: (tx, text) => tx.$executeRawUnsafe(text),
      mistakes: { 'a Prisma client': client },
      close: () => client.$disconnect(),
    }
  },
})

const knex = library<createKnex.Knex.Transaction>({
  name: 'Knex',
  wording: {
    given: 'a Knex transaction',
    callback: 'the trx that knex.transaction()',
    writable:
      'begin it without { readOnly: true }; where default_transaction_read_only is on, let its first statement be SET TRANSACTION READ WRITE',
  },
  packages: ['knex', 'pg'],
  async open(connectionString) {
    const db = createKnex({ client: 'pg', connection: connectionString })
    return {
      transactions: knexTransactions(db),
      transaction: (work) => db.transaction(work),
      nested: (tx, work) => tx.transaction(work),
      execute: async (tx, text) => tx.raw(text),
      mistakes: { 'a Knex instance': db },
      close: () => db.destroy(),
    }
  },
})

const typeOrm = library<EntityManager>({
  name: 'TypeORM',
  wording: {
    given: 'a TypeORM transaction',
    callback: 'the manager that dataSource.transaction()',
    writable: 'let its first statement be manager.query("SET TRANSACTION READ WRITE")',
  },
  packages: ['typeorm', 'pg'],
  async open(connectionString) {
    const source = await new DataSource({ type: 'postgres', url: connectionString }).initialize()
    return {
      transaction: (work) => source.transaction(work),
      transactions: typeOrmTransactions(source),
      nested: (tx, work) => tx.transaction(work),
      execute: (tx, text) => tx.query(text),
      mistakes: { 'a TypeORM DataSource': source, 'a TypeORM manager outside a transaction': source.manager },
      close: () => source.destroy(),
    }
  },
})

const sequelize = library<SequelizeTransaction>({
  name: 'Sequelize',
  wording: {
    given: 'a Sequelize transaction',
    callback: 'the transaction that sequelize.transaction()',
    writable: 'let its first statement be sequelize.query("SET TRANSACTION READ WRITE", { transaction })',
  },
  packages: ['sequelize', 'pg'],
  async open(connectionString) {
    const db = new Sequelize(connectionString, { logging: false })
    return {
      transactions: sequelizeTransactions(db),
      transaction: (work) => db.transaction(work),
      nested: (transaction, work) => db.transaction({ transaction }, work),
      execute: (transaction, text) => db.query(text, { transaction }),
      mistakes: { 'a Sequelize instance': db },
      close: () => db.close(),
    }
  },
})

export const LIBRARIES: readonly AnyLibrary[] = [
  onPg,
  onKysely,
  onKysely29,
  drizzle,
  drizzlePostgresJs,
  postgresJs,
  prisma,
  knex,
  typeOrm,
  sequelize,
  mikroOrm,
]

const [major] = process.versions.node.split('.').map(Number)

/** Those that run on this version of Node. */
export const LIBRARIES_HERE = LIBRARIES.filter(({ node = 0 }) => major! >= node)
