import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, endedTransaction, isFunction, type Members, wordingOf } from './adapter.ts'

interface QueryRunner {
  readonly isReleased: boolean
  readonly isTransactionActive: boolean
  query(text: string, values: readonly Text[], structured: true): Promise<{ readonly records: unknown[] }>
}

interface Source<Manager> {
  readonly manager: Manager
  transaction(work: (manager: Manager) => Promise<void>): Promise<void>
}

const ADVICE = 'pass the manager that dataSource.transaction() hands to its callback'
const WORDING = wordingOf(
  'a TypeORM transaction',
  ADVICE,
  'let its first statement be manager.query("SET TRANSACTION READ WRITE")',
)

/** Transactions of a TypeORM DataSource. Handlers get their EntityManager. */
export function transactionsOf<Manager>(source: Source<Manager>): Transactions<Manager> {
  return { given: WORDING.given, transaction: (work) => source.transaction(work) }
}

/** A DataSource, one of its managers or their repositories, or a QueryRunner. */
export const recognizeTypeOrm: Adapter = (tx) => {
  const { createQueryRunner, getTreeRepository, queryRunner, manager, metadata } = tx as Members
  if (isFunction(createQueryRunner)) return `is a TypeORM DataSource: ${ADVICE}`
  if (isRunner(tx)) return joined(tx)
  if (typeof manager === 'object' && manager !== null && metadata !== undefined)
    return recognizeTypeOrm(manager)
  if (!isFunction(getTreeRepository)) return undefined
  return isRunner(queryRunner) ? joined(queryRunner) : `is a TypeORM manager outside a transaction: ${ADVICE}`
}

function joined(runner: QueryRunner): ReturnType<Adapter> {
  if (runner.isReleased) return WORDING.ended
  if (!runner.isTransactionActive)
    return `is a TypeORM QueryRunner outside a transaction: call its startTransaction() first, or ${ADVICE}`
  return {
    ...WORDING,
    casts: 'none',
    client: clientOf(runner),
    async run(text, values) {
      try {
        return (await runner.query(text, [...values], true)).records ?? []
      } catch (error) {
        throw hasEnded(error) ? endedTransaction(error) : error
      }
    },
  }
}

/** TypeORM's field for its connection is not public, so it may be missing. */
function clientOf(runner: object): object | undefined {
  const { databaseConnection } = runner as Members
  const isClient = typeof databaseConnection === 'object' && databaseConnection !== null
  return isClient && isFunction((databaseConnection as Members).on) ? databaseConnection : undefined
}

function hasEnded(error: unknown): error is Error {
  return error instanceof Error && error.name === 'QueryRunnerAlreadyReleasedError'
}

function isRunner(value: unknown): value is QueryRunner {
  return (
    typeof value === 'object' && value !== null && 'isTransactionActive' in value && 'isReleased' in value
  )
}
