import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, endedTransaction, isFunction, type Members, rowsOf, wordingOf } from './adapter.ts'

interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: Text[]): Promise<unknown>
}

interface Client<Tx, Options> {
  $transaction<T>(work: (tx: Tx) => Promise<T>, options?: Options): Promise<T>
}

/** ms; the most that a timer can wait. Prisma's default of 5 s would roll back what a handler has no `timeout` for. */
const NO_TIMEOUT = 2 ** 31 - 1

const ADVICE = 'pass the tx that prisma.$transaction() hands to its callback'
const WORDING = wordingOf(
  'a Prisma transaction',
  ADVICE,
  'let its first statement be tx.$executeRawUnsafe("SET TRANSACTION READ WRITE")',
)

/** Transactions of a Prisma client. `options`: as for `prisma.$transaction`, but that `timeout` is none by default. */
export function transactionsOf<Tx, Options extends { timeout?: number }>(
  client: Client<Tx, Options>,
  options?: Options,
): Transactions<Tx> {
  const settings = { timeout: NO_TIMEOUT, ...options } as Options
  return { given: WORDING.given, transaction: (work) => client.$transaction(work, settings) }
}

/** In a transaction, Prisma's client has no `$connect`. */
export const recognizePrisma: Adapter = (tx) => {
  const { $queryRawUnsafe, $connect } = tx as Members
  if (!isFunction($queryRawUnsafe)) return undefined
  if ($connect !== undefined) return `is a Prisma client: ${ADVICE}`
  return {
    ...WORDING,
    casts: 'all',
    async run(text, values) {
      try {
        return rowsOf(await (tx as PrismaTransaction).$queryRawUnsafe(text, ...values))
      } catch (error) {
        throw toServerError(error)
      }
    },
  }
}

/** As Prisma tells what the server said, by driver adapters and by its own engine. */
interface PrismaError extends Error {
  readonly code?: string
  readonly meta?: {
    readonly code?: string
    readonly message?: string
    readonly driverAdapterError?: {
      readonly cause?: { readonly originalCode?: string; readonly originalMessage?: string }
    }
  }
}

/** The error as the server sent it. `P2010` means that a raw statement failed; `P2028`, that the transaction has ended. */
function toServerError(error: unknown): unknown {
  const { meta, code } = (error ?? {}) as PrismaError
  if (code === 'P2028') return endedTransaction(error as Error)
  const told = meta?.driverAdapterError?.cause
  const state = told?.originalCode ?? (code === 'P2010' ? meta?.code : undefined)
  if (state === undefined) return error
  const message = told?.originalMessage ?? withoutPrefix(meta?.message ?? (error as Error).message)
  return Object.assign(new Error(message, { cause: error }), { code: state })
}

function withoutPrefix(message: string): string {
  return message.replace(/^ERROR: /, '')
}
