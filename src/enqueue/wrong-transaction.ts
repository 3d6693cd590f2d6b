import { DatabaseError } from '../errors.ts'
import { hasCode } from '../postgres/failure.ts'
import { type Home, isSameHome } from '../store/home.ts'
import type { Joined } from './joined.ts'
import type { KnownHome } from './known-home.ts'
import { notInTransaction, readOnly } from './transaction.ts'

/** Translates the server's error about a call in `on` into one about the given `tx`; leaves other errors as they are. */
export async function toWrongTransaction(error: unknown, on: Joined, known: KnownHome): Promise<unknown> {
  if (hasCode(error, 'LK004', '25P01')) return notInTransaction(on, error)
  if (hasCode(error, 'LK024')) return readOnly(on, error)
  if (hasCode(error, 'LK014')) return toElsewhere((error as Error).cause as Error, known)
  if (hasCode(error, 'LOCKSTEP_SCHEMA_MISSING', 'LOCKSTEP_SCHEMA_OLD'))
    return toForeign(error as Error, on, known)
  return error
}

/** The transaction is in another database, or ours was renamed or restored since we asked. */
export async function toElsewhere(cause: Error, known: KnownHome): Promise<DatabaseError> {
  const before = await known.find()
  const now = await known.again()
  if (before === now || (before && now && isSameHome(before, now)))
    return elsewhere(cause.message, now, cause)
  return new DatabaseError(
    'LOCKSTEP_CONFLICT',
    'the database was renamed or restored since the first call; roll the transaction back and try it again',
    { cause },
  )
}

/** If our own schema is in order, the transaction must be in another database. */
async function toForeign(error: Error, on: Joined, known: KnownHome): Promise<unknown> {
  const now = await known.again().catch((failure: Error) => failure)
  if (now instanceof Error) return now
  const place = await placeOf(on, now, known)
  return elsewhere(
    `the transaction is in ${place} without this release's schema, not in that of its Lockstep`,
    now,
    error,
  )
}

async function placeOf(on: Joined, home: Home | undefined, known: KnownHome): Promise<string> {
  if (on.place) return `database ${on.place}`
  const name = await known.findBeside(on).catch(() => undefined)
  return name === undefined || home === undefined ? 'a database' : `database "${name}" on ${home.address}`
}

function elsewhere(problem: string, home: Home | undefined, cause: Error): DatabaseError {
  const place = home ? `, "${home.database}" on ${home.address}` : ''
  return new DatabaseError(
    'LOCKSTEP_BAD_TRANSACTION',
    `${problem}${place}: pass a transaction of that database, or use a Lockstep of the other one`,
    { cause },
  )
}
