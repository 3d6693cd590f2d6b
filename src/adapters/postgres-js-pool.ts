import type { Transactions } from '../handler.ts'
import { hasBroken } from '../postgres/failure.ts'
import { ignoreRejection, settlesWithin } from '../promises.ts'
import { isFunction, type Members } from './adapter.ts'

/** A statement of postgres.js, which begins when it is awaited. */
interface Query extends Promise<unknown> {
  reject(error: Error): void
}

/** Whether the connection of a transaction is lost, and what waits for its answers. */
class Loss {
  error: Error | undefined
  readonly #waiting = new Set<Query>()
  #lose!: (error: Error) => void
  readonly #lost = new Promise<never>((_, reject) => {
    this.#lose = reject
  })

  constructor() {
    ignoreRejection(this.#lost)
  }

  /** postgres.js does not answer every statement that was under way. */
  happen(cause: Error): void {
    if (this.error) return
    this.error = Object.assign(new Error('the connection of this transaction is lost', { cause }), LOST)
    this.#lose(this.error)
    for (const query of this.#waiting) query.reject(this.error)
  }

  /** What the caller gets for a result: it rejects when the connection is lost. */
  watch(result: unknown): unknown {
    if (!(result instanceof Promise)) return result
    if (!isFunction((result as unknown as Members).reject)) return Promise.race([result, this.#lost])
    const query = result as Query
    const settled = () => void this.#waiting.delete(query)
    this.#waiting.add(query)
    // Its own `then` would begin it. Whoever awaits it hears of its end later than this, and `begin` rejects later still.
    Promise.prototype.then.call(query, settled, (error) => {
      settled()
      if (hasBroken(error)) this.happen(error)
    })
    return query
  }
}

const LOST = { code: 'CONNECTION_CLOSED' }

/** What is needed of an instance. */
export interface Pool {
  readonly options: { readonly max: number }
  unsafe(text: string): PromiseLike<unknown>
}

/** A statement after a loss, and ms that it may take. */
const [PINGS, PING_TIMEOUT] = [3, 2_000]

/**
 * Transactions of a postgres.js instance, safe from what postgres.js 3.4 does when a connection
 * is lost. A call of `begin` rejects at once, but its callback goes on, and what it sends then ends the process or gets into
 * whatever transaction the next session of the connection is in; so does the COMMIT or ROLLBACK when the callback ends. And
 * while calls wait for a connection, one may be given to two.
 *
 * So no more transactions begin at once than there are connections. After a loss, the callback never ends for postgres.js,
 * and `guard` replaces what `work` gets by something that sends nothing. And the next statement on the connection gets the
 * last error of the old session, so that is one of no importance.
 */
export function overPool<Tx>(
  pool: Pool,
  { given, transaction }: Transactions<Tx>,
  guard: (tx: Tx, loss: Loss) => Tx,
): Transactions<Tx> {
  const permits = new Permits(pool.options.max)
  return {
    ...(given === undefined ? {} : { given }),
    async transaction(work) {
      await permits.take()
      const loss = new Loss()
      let working: Promise<void> | undefined
      try {
        await transaction((tx) => {
          working = work(guard(tx, loss))
          return unlessLost(working, loss)
        })
      } catch (error) {
        loss.happen(error as Error)
        throw error
      } finally {
        await working?.catch(() => {})
        if (hasBroken(loss.error)) await ping(pool)
        // What postgres.js sends at the end of the callback comes before what the next transaction sends.
        setImmediate(() => permits.give())
      }
    },
  }
}

async function ping(pool: Pool): Promise<void> {
  for (let left = PINGS; left > 0; left -= 1) {
    let answered = false
    const answer = Promise.resolve(pool.unsafe('SELECT 1')).then(() => {
      answered = true
    })
    await settlesWithin(answer, PING_TIMEOUT)
    if (answered) return
  }
}

/** Never settles after a loss. */
function unlessLost(working: Promise<void>, loss: Loss): Promise<void> {
  return new Promise((resolve, reject) => {
    working.then(
      () => {
        if (!loss.error) resolve()
      },
      (error) => {
        if (!loss.error && !hasBroken(error)) reject(error)
      },
    )
  })
}

/** The `sql` of a transaction, and those of its savepoints, which send nothing after a loss. */
export function guarded<Sql extends object>(sql: Sql, loss: Loss): Sql {
  const call = (member: unknown, self: unknown, given: unknown[]) => {
    if (loss.error) throw loss.error
    return loss.watch(Reflect.apply(member as (...given: unknown[]) => unknown, self, given))
  }
  return new Proxy(sql, {
    apply: (target, self, given) => call(target, self, given),
    get(target, key) {
      const member = (target as Members)[key as string]
      if (!isFunction(member)) return member
      const inner = (one: unknown) => (key === 'savepoint' ? guardedCallback(one, loss) : one)
      return (...given: unknown[]) => call(member, target, given.map(inner))
    },
  })
}

function guardedCallback(given: unknown, loss: Loss): unknown {
  return typeof given === 'function' ? (sql: object) => given(guarded(sql, loss)) : given
}

class Permits {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(most: number) {
    this.#free = most
  }

  take(): Promise<void> {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#free -= 1
    return Promise.resolve()
  }

  give(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free += 1
  }
}
