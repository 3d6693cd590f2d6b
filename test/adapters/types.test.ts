import type { MikroORM, EntityManager as MikroOrmEntityManager } from '@mikro-orm/postgresql'
import type { drizzle } from 'drizzle-orm/node-postgres'
import type { Knex } from 'knex'
import type { Kysely, Transaction as KyselyTransaction } from 'kysely'
import type { Kysely as Kysely29, Transaction as Kysely29Transaction } from 'kysely-0.29'
import type postgres from 'postgres'
import type { Sequelize, Transaction as SequelizeTransaction } from 'sequelize'
import type { DataSource, EntityManager } from 'typeorm'
import { expectTypeOf, test } from 'vitest'
import * as onDrizzle from '../../src/adapters/drizzle.ts'
import * as onKnex from '../../src/adapters/knex.ts'
import * as onKysely from '../../src/adapters/kysely.ts'
import * as onMikroOrm from '../../src/adapters/mikro-orm.ts'
import * as onPostgresJs from '../../src/adapters/postgres-js.ts'
import * as onPrisma from '../../src/adapters/prisma.ts'
import * as onSequelize from '../../src/adapters/sequelize.ts'
import * as onTypeOrm from '../../src/adapters/typeorm.ts'
import {
  type Batch,
  defineQueue,
  type Queue,
  type TransactionalContext,
  type Transactions,
} from '../../src/index.ts'
import type { Prisma, PrismaClient } from './prisma/client/client.ts'

interface Shop {
  orders: { id: string }
}
interface OrderEvent {
  readonly status: string
}

type Drizzle = ReturnType<typeof drizzle>
type DrizzleTransaction = Parameters<Parameters<Drizzle['transaction']>[0]>[0]

// Checked only by the compiler: nothing here ever runs.
declare const drizzleDatabase: Drizzle
declare const kysely: Kysely<Shop>
declare const kysely29: Kysely29<Shop>
declare const prisma: PrismaClient
declare const knex: Knex
declare const sql: postgres.Sql
declare const source: DataSource
declare const sequelize: Sequelize
declare const orm: MikroORM
const isRun = false as boolean

test('transactions have the type that their library gives to a callback', () => {
  if (!isRun) return
  expectTypeOf(onDrizzle.transactionsOf(drizzleDatabase)).toEqualTypeOf<Transactions<DrizzleTransaction>>()
  expectTypeOf(onKysely.transactionsOf(kysely)).toEqualTypeOf<Transactions<KyselyTransaction<Shop>>>()
  expectTypeOf(onKysely.transactionsOf(kysely29)).toEqualTypeOf<Transactions<Kysely29Transaction<Shop>>>()
  expectTypeOf(onPrisma.transactionsOf(prisma)).toEqualTypeOf<Transactions<Prisma.TransactionClient>>()
  expectTypeOf(onKnex.transactionsOf(knex)).toEqualTypeOf<Transactions<Knex.Transaction>>()
  expectTypeOf(onPostgresJs.transactionsOf(sql)).toEqualTypeOf<Transactions<postgres.TransactionSql>>()
  expectTypeOf(onTypeOrm.transactionsOf(source)).toEqualTypeOf<Transactions<EntityManager>>()
  expectTypeOf(onSequelize.transactionsOf(sequelize)).toEqualTypeOf<Transactions<SequelizeTransaction>>()
  expectTypeOf(onMikroOrm.transactionsOf(orm)).toExtend<Transactions<MikroOrmEntityManager>>()
})

test('a handler gets its batch and its transaction typed', () => {
  if (!isRun) return
  const queue = defineQueue('orders', {
    transactional: onKysely.transactionsOf(kysely),
    perform(batch: Batch<OrderEvent>, context) {
      expectTypeOf(batch).toEqualTypeOf<Batch<OrderEvent>>()
      expectTypeOf(context).toEqualTypeOf<TransactionalContext<KyselyTransaction<Shop>>>()
    },
  })
  expectTypeOf(queue).toEqualTypeOf<Queue<OrderEvent>>()
  const both = defineQueue<OrderEvent, KyselyTransaction<Shop>>('orders', {
    transactional: onKysely.transactionsOf(kysely),
    perform(_, { tx }) {
      expectTypeOf(tx).toEqualTypeOf<KyselyTransaction<Shop>>()
    },
  })
  expectTypeOf(both).toEqualTypeOf<Queue<OrderEvent>>()
})

test('options are those of the library', () => {
  if (!isRun) return
  onPrisma.transactionsOf(prisma, { timeout: 60_000 })
  onDrizzle.transactionsOf(drizzleDatabase, { isolationLevel: 'read committed' })
  // @ts-expect-error: no level of Prisma's
  onPrisma.transactionsOf(prisma, { isolationLevel: 'committed' })
  // @ts-expect-error: no level of Drizzle's
  onDrizzle.transactionsOf(drizzleDatabase, { isolationLevel: 'committed' })
})
