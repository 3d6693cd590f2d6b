import type pg from 'pg'
import { pidOf, type StoreEnvironment, untilBlocked } from '../support/store-environment.ts'

const GATE = 4_711

/**
 * Stops certain sessions in the middle of a statement: after it has taken its snapshot, and before it locks a row. What
 * others commit meanwhile is what the protocol must handle. `gateClaims` and its like put the gate into a copy
 * of the function under test. Sessions that did not ask for it pass through.
 */
export class Gate {
  readonly #env: StoreEnvironment

  constructor(env: StoreEnvironment) {
    this.#env = env
  }

  async install(): Promise<void> {
    await this.#env.query(`
      CREATE FUNCTION lockstep.gate() RETURNS boolean LANGUAGE plpgsql SET lock_timeout = 0 AS $$
      BEGIN
        IF current_setting('test.gate', true) = 'on' THEN
          PERFORM pg_advisory_lock_shared(${GATE}), pg_advisory_unlock_shared(${GATE});
        END IF;
        RETURN true;
      END $$`)
  }

  /** Stops at the first row that some process has claimed. So a test puts such a row before those it is about. */
  gateClaims(): Promise<void> {
    return this.#edit('is_gone', /BEGIN\n/, 'BEGIN PERFORM lockstep.gate();\n')
  }

  /** Stops a claim with a lease before it claims. */
  gateLeases(): Promise<void> {
    return this.#edit('claim_leased', /\.claim\(\s+0,/, '.claim(CASE WHEN lockstep.gate() THEN 0 END,')
  }

  /** Stops at each row of a completion, failure or release that does not wait. */
  gateSettlements(): Promise<void> {
    return this.#edit(
      'lock_claims',
      /ORDER BY j.id FOR UPDATE SKIP LOCKED/,
      'AND lockstep.gate() ORDER BY j.id FOR UPDATE SKIP LOCKED',
    )
  }

  /** Stops a completion when it has kept the results, before it completes. */
  gateResults(): Promise<void> {
    return this.#edit('complete_with_results', /_our_queue_ids :=/, 'PERFORM lockstep.gate();\n  $&')
  }

  /** Stops a sweep at each job, before it locks its row. */
  gateSweeps(): Promise<void> {
    return this.#edit(
      'remove_expired',
      /j\.claimed_by IS NULL\n/,
      'j.claimed_by IS NULL AND lockstep.gate()\n',
    )
  }

  /** Stops what trims limits once it has found the starts that may go. */
  gateTrims(): Promise<void> {
    return this.#edit('old_starts', /END\n(?=\$function)/, 'PERFORM lockstep.gate(); END\n')
  }

  /** Stops what trims reply queues once it has looked, before it locks them. */
  gateReplyQueues(): Promise<void> {
    return this.#edit('trim_reply_queues', /_old := ARRAY/, 'PERFORM lockstep.gate();\n  $&')
  }

  /** Runs `act` while the statement that `start` sends through a gated session is stopped at the gate. */
  async during<T>(start: (session: pg.Client) => Promise<T>, act: () => Promise<void>): Promise<T> {
    const [keeper, session] = [await this.#env.session(), await this.#env.session()]
    await keeper.query(`SELECT pg_advisory_lock(${GATE})`)
    await session.query(`SET test.gate = 'on'`)
    const pid = await pidOf(session)
    const result = start(session)
    result.catch(() => {})
    await untilBlocked(this.#env, pid)
    await act()
    await keeper.query(`SELECT pg_advisory_unlock(${GATE})`)
    return result
  }

  async #edit(name: string, where: RegExp, put: string): Promise<void> {
    const [row] = await this.#env.query<{ text: string }>(
      `SELECT pg_get_functiondef(oid) AS text FROM pg_proc
       WHERE pronamespace = 'lockstep'::regnamespace AND proname = $1`,
      [name],
    )
    const gated = row!.text.replace(where, put)
    if (gated === row!.text) throw new Error(`${name} has no place for the gate`)
    await this.#env.query(gated)
  }
}
