import type pg from 'pg'
import { pidOf } from './store-environment.ts'

/**
 * Two producers that hand an id's row to each other: one commits when the other waits behind it for the row. So a
 * statement that skips locked rows never finds it free, and one that waits for it has it after two turns.
 */
export class Relay {
  /** How often the row was handed on. */
  turns = 0
  readonly #push: (session: pg.Client) => Promise<unknown>
  readonly #watch: pg.Client
  #sessions: readonly { client: pg.Client; pid: number }[] = []
  #inFlight = true
  #done: Promise<void> = Promise.resolve()

  /** `push` pushes into the row; `watch` is a session for looking on. */
  constructor(push: (session: pg.Client) => Promise<unknown>, watch: pg.Client) {
    this.#push = push
    this.#watch = watch
  }

  /** Resolves when the row is held for the first time. */
  async start(...clients: [pg.Client, pg.Client]): Promise<void> {
    this.#sessions = await Promise.all(clients.map(async (client) => ({ client, pid: await pidOf(client) })))
    await this.#begin(0)
    this.#done = this.#run()
  }

  async stop(): Promise<void> {
    this.#inFlight = false
    await this.#done
  }

  async #run(): Promise<void> {
    let holder = 0
    for (; this.#inFlight; holder = 1 - holder) {
      const pushed = this.#begin(1 - holder)
      while (!(await this.#waits(1 - holder)));
      await this.#sessions[holder]!.client.query('COMMIT')
      await pushed
      this.turns += 1
    }
    await this.#sessions[holder]!.client.query('COMMIT')
  }

  async #begin(index: number): Promise<void> {
    const { client } = this.#sessions[index]!
    await client.query('BEGIN')
    await this.#push(client)
  }

  async #waits(index: number): Promise<boolean> {
    const { rows } = await this.#watch.query('SELECT cardinality(pg_blocking_pids($1)) > 0 AS waits', [
      this.#sessions[index]!.pid,
    ])
    return rows[0].waits
  }
}
