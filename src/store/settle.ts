import type { Database, Queryable } from '../postgres/database.ts'
import type { Round } from './claim.ts'
import { storable } from './encoding.ts'
import { columnsOfResults } from './results.ts'
import { type Callable, rowsThrough, type Settings, type Through } from './through.ts'

/**
 * A round that was not simply finished: it waits `again`; or it is still `held`, because a producer's open transaction
 * has its row; or the claim was `lost`.
 */
export interface Leftover {
  readonly queueId: number
  readonly id: string
  readonly outcome: 'again' | 'held' | 'lost'
  readonly shard: number | null
  readonly lane: number | null
  /** Microseconds since 1970, for a round that waits again. */
  readonly performIn: number | null
}

/**
 * A round that did not succeed. Its lowest payload may `die`, since the last retry is used up. What the handler says may
 * `snooze` or `drop` it, which is no failure, or `discard` all its payloads to the morgue.
 */
export interface Failure {
  readonly round: Round
  readonly end: 'fail' | 'die' | 'discard' | 'snooze' | 'drop'
  /** null if it is no failure. */
  readonly error: string | null
  /** Seconds until the next try; null if none follows. */
  readonly retryIn: number | null
  /** Its handler outlived the queue's timeout (R16). Default false. */
  readonly isTimeout?: boolean
}

/** The process and queue of the rounds, and the transaction to settle them in. Only with `tx` are locked rows waited for. */
export interface Holder {
  readonly processId: number
  readonly queueId: number
  readonly tx?: Queryable
}

export function complete(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Leftover[]> {
  return settle(database, 'complete', holder, rounds, cutsOf(rounds))
}

/** Completes rounds, and keeps what they have returned. */
export function answer(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Leftover[]> {
  return settle(database, ANSWER.name, holder, rounds, answersOf(rounds))
}

/** Where the rounds left payloads behind, and what to keep of each. */
export function answersOf(rounds: readonly Round[]): (unknown[] | null)[] {
  return [...cutsOf(rounds), ...columnsOfResults(rounds.map(({ kept }) => kept))]
}

/** The scores and places where rounds left payloads behind; two nulls if none did, as in most queues. */
export function cutsOf(rounds: readonly Round[]): [(number | null)[] | null, (number | null)[] | null] {
  if (rounds.every((round) => round.cut === undefined)) return [null, null]
  return [rounds.map((round) => round.cut?.score ?? null), rounds.map((round) => round.cut?.seq ?? null)]
}

export async function fail(
  database: Database,
  holder: Holder,
  failures: readonly Failure[],
): Promise<Leftover[]> {
  const rounds = failures.map((failure) => failure.round)
  return settle(database, FAIL.name, holder, rounds, await reasonsOf(database, failures, holder.tx))
}

/** Buries all payloads of the rounds. */
export async function discard(
  database: Database,
  holder: Holder,
  failures: readonly Failure[],
): Promise<Leftover[]> {
  const rounds = failures.map((failure) => failure.round)
  const [errors] = await reasonsOf(database, failures, holder.tx)
  return settle(database, 'discard', holder, rounds, [errors, ...cutsOf(rounds)])
}

const CLAIMS = ['int4[]', 'int4', 'text[]', 'int8[]']
const COMPLETE: Callable = {
  kind: 'rows',
  name: 'complete',
  types: [...CLAIMS, 'float8[]', 'int8[]', 'bool'],
}
const ANSWER: Callable = {
  kind: 'rows',
  name: 'complete_with_results',
  types: [...CLAIMS, 'float8[]', 'int8[]', 'jsonb[]', 'float8[]', 'bool'],
}
const FAIL: Callable = {
  kind: 'rows',
  name: 'fail_claims',
  types: [...CLAIMS, 'text[]', 'float8[]', 'text[]', 'bool'],
}
const DISCARD: Callable = {
  kind: 'rows',
  name: 'discard',
  types: [...CLAIMS, 'text[]', 'float8[]', 'int8[]', 'bool'],
}

/**
 * Ends the rounds of a batch in its handler's transaction, where locked rows are waited for. Gives the transaction `settings`
 * afterwards. Resolves to undefined if it's no longer that of `round`.
 */
export async function settleThrough(
  database: Database,
  on: Through,
  holder: Holder,
  completed: readonly Round[],
  failures: readonly Failure[],
  { round, settings }: { readonly round: string; readonly settings: Settings },
): Promise<Leftover[] | undefined> {
  const dropped = failures.filter(({ end }) => end === 'drop').map(roundOf)
  const discarded = failures.filter(({ end }) => end === 'discard')
  const failed = failures.filter(({ end }) => end !== 'drop' && end !== 'discard')
  const answered = completed.filter(({ kept }) => kept !== undefined)
  const done = [...(answered.length > 0 ? [] : completed), ...dropped]
  const calls: [Callable, readonly Round[], unknown[]][] = []
  if (answered.length > 0) calls.push([ANSWER, answered, answersOf(answered)])
  if (done.length > 0) calls.push([COMPLETE, done, cutsOf(done)])
  if (failed.length > 0) calls.push([FAIL, failed.map(roundOf), await reasonsOf(database, failed, on)])
  if (discarded.length > 0) {
    const rounds = discarded.map(roundOf)
    const [errors] = await reasonsOf(database, discarded, on)
    calls.push([DISCARD, rounds, [errors, ...cutsOf(rounds)]])
  }
  const leftovers: Leftover[] = []
  for (const [index, [callable, rounds, columns]] of calls.entries()) {
    const values = [...claimsOf(holder, rounds), ...columns, true]
    const after = index === calls.length - 1 ? settings : undefined
    const rows = await rowsThrough<ExceptionRow>(database, on, callable, values, round, after)
    if (!rows) return undefined
    leftovers.push(...rows.map(leftoverOf))
  }
  return leftovers
}

export function roundOf({ round }: Failure): Round {
  return round
}

/** The errors of failed rounds, in storable form, their next tries, and their kinds. */
export async function reasonsOf(
  database: Database,
  failures: readonly Failure[],
  on?: Queryable | Through,
): Promise<[errors: (string | null)[], retryIns: (number | null)[], kinds: string[] | null]> {
  const errors = failures.map(({ error }) => error)
  const stored = [...(await storable(database, errors, on))]
  return [stored, failures.map(({ retryIn }) => retryIn), kindsOf(failures)]
}

/** Null if all are plain failures, as mostly. */
function kindsOf(failures: readonly Failure[]): string[] | null {
  if (!failures.some(({ isTimeout }) => isTimeout)) return null
  return failures.map(({ isTimeout }) => (isTimeout ? 'timeout' : 'failure'))
}

export function release(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Leftover[]> {
  return settle(database, 'release', holder, rounds, [])
}

/**
 * Releases rounds and counts a crash for each, since it is unknown how they ended (R10). One transaction holds the rows from
 * before the count until the release, so both are stored or neither. A round whose end was stored after all is not held, and
 * gets no crash. Nor does a round whose row becomes free in between: it is left for the next try.
 */
export function crash(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Leftover[]> {
  const { queueId, tx } = holder
  const wait = tx !== undefined
  const crashIn = async (client: Queryable) => {
    const claims = claimsOf(holder, rounds)
    const held = await database.call<{ place: number; tid: string }>('lock_claims', [...claims, wait], client)
    await database.query(
      `UPDATE ${database.prefix}.jobs SET crashes = crashes + 1,
         attempts = ${database.prefix}.with_attempt(attempts, error, 'crash', retry_count)
       WHERE queue_id + 0 = $1 AND ctid = ANY ($2::tid[])`,
      [queueId, held.map(({ tid }) => tid)],
      client,
    )
    const places = held.map(({ place }) => place)
    const ours = claimsOf(
      holder,
      places.map((place) => rounds[place - 1]!),
    )
    const released = await database.call<ExceptionRow>('release', [...ours, wait], client)
    const others = await database.call<ExceptionRow>('unsettled', [...claims, places], client)
    return [...released, ...others].map(leftoverOf)
  }
  return tx ? crashIn(tx) : database.transaction(crashIn)
}

async function settle(
  database: Database,
  name: string,
  holder: Holder,
  rounds: readonly Round[],
  columns: readonly (unknown[] | null)[],
): Promise<Leftover[]> {
  const { tx } = holder
  const values = [...claimsOf(holder, rounds), ...columns, tx !== undefined]
  return (await database.call<ExceptionRow>(name, values, tx)).map(leftoverOf)
}

/** The claims, as arguments of the functions that hold rows. */
function claimsOf({ processId, queueId }: Holder, rounds: readonly Round[]): unknown[] {
  const queueIds = rounds.map(() => queueId)
  return [queueIds, processId, rounds.map((round) => round.id), rounds.map((round) => round.fence)]
}

/** A row of complete, fail or release. */
export interface ExceptionRow extends Pick<Leftover, 'outcome' | 'shard' | 'lane'> {
  readonly queue_id: number
  readonly id: string
  readonly perform_in: number | null
}

export function leftoverOf({ queue_id, id, outcome, shard, lane, perform_in }: ExceptionRow): Leftover {
  return { queueId: queue_id, id, outcome, shard, lane, performIn: perform_in }
}
