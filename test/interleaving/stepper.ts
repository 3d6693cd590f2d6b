import type pg from 'pg'
import { pidOf, type StoreEnvironment } from '../support/store-environment.ts'
import { gatedQuery } from './gates.ts'

/** Keys of one session: so many that they never reach those of the next session. */
const KEYS = 2 ** 20

/** A session that holds the keys of gates and releases them. */
export class Keeper {
  readonly #client: pg.Client
  #last: Promise<unknown>

  constructor(client: pg.Client) {
    this.#client = client
    this.#last = Promise.resolve()
  }

  hold(key: number): Promise<unknown> {
    return this.#ask('SELECT pg_advisory_lock($1)', [key])
  }

  /** Takes the next key before it releases this one. */
  pass(key: number): Promise<unknown> {
    return this.#ask('SELECT pg_advisory_lock($1), pg_advisory_unlock($2)', [key + 1, key])
  }

  #ask(text: string, values: number[]): Promise<unknown> {
    this.#last = this.#last.then(() => this.#client.query({ name: text, text, values }))
    return this.#last
  }
}

/** Returns the answer it got. */
export type Work = (session: pg.Client) => Promise<string>

/**
 * A session that does its work step by step. It stops before each statement that its work sends, before the COMMIT, and
 * at every gate inside a statement. `step` lets it go on to the next stop.
 */
export class Stepper {
  readonly name: string
  readonly pid: number
  /** What it will do in its next step; undefined while a step is under way, and after the end. */
  next: string | undefined
  ended = true
  /** What its work returned, or how it failed. */
  answer = ''
  readonly #client: pg.Client
  readonly #keeper: Keeper
  #key: number
  #steps = 0
  #release: () => void = () => {}
  #watchers: (() => void)[] = []

  private constructor(name: string, client: pg.Client, keeper: Keeper, pid: number) {
    this.name = name
    this.pid = pid
    this.#key = pid * KEYS
    this.#client = client
    this.#keeper = keeper
    client.on('notice', ({ message }) => {
      if (message?.startsWith('gate: ')) this.#stopAtGate(message.slice('gate: '.length))
    })
  }

  /** `keeper` holds the keys of its gates. */
  static async open(env: StoreEnvironment, name: string, keeper: Keeper): Promise<Stepper> {
    const client = await env.session()
    const stepper = new Stepper(name, client, keeper, await pidOf(client))
    await keeper.hold(stepper.#key)
    return stepper
  }

  /** Whether it has stopped or ended. */
  get still(): boolean {
    return this.ended || this.next !== undefined
  }

  /** Whether it is between two transactions of its work. */
  get between(): boolean {
    return this.next === 'BEGIN'
  }

  /** Begins a transaction and stops before its first statement. */
  async begin(work: Work, end = 'COMMIT'): Promise<void> {
    this.ended = false
    this.#steps = 0
    await this.#client.query(`SET test.key = '${this.#key}'; BEGIN ISOLATION LEVEL READ COMMITTED`)
    void this.#perform(work, end)
    await this.moved()
  }

  /** Goes on, and returns a description of the step. */
  step(): string {
    this.#steps += 1
    const told = `${this.name}${this.#steps} ${this.next}`
    this.next = undefined
    this.#release()
    return told
  }

  /** Resolves when it is still. */
  moved(): Promise<void> {
    return this.still ? Promise.resolve() : new Promise((resolve) => this.#watchers.push(resolve))
  }

  async #perform(work: Work, end: string): Promise<void> {
    const session = {
      query: (query: string | pg.QueryConfig, values?: unknown[]) => this.#query(query, values),
    }
    try {
      this.answer = await work(session as unknown as pg.Client)
      await this.#query(end)
    } catch (error) {
      this.answer = `fails: ${(error as Error).message}`
      await this.#client.query('ROLLBACK')
    }
    this.ended = true
    this.#tell()
  }

  async #query(query: string | pg.QueryConfig, values?: unknown[]): Promise<pg.QueryResult> {
    const config = typeof query === 'string' ? { text: query, values } : query
    const name = nameOf(config.text)
    await new Promise<void>((release) => this.#stop(name, release))
    return this.#client.query({ ...config, text: gatedQuery(name, config.text) })
  }

  #stopAtGate(place: string): void {
    this.#stop(place, () => {
      // The last answer may still be on its way when the test ends its sessions.
      this.#keeper.pass(this.#key).catch(() => {})
      this.#key += 1
    })
  }

  #stop(place: string, release: () => void): void {
    this.next = place
    this.#release = release
    this.#tell()
  }

  #tell(): void {
    for (const watcher of this.#watchers.splice(0)) watcher()
  }
}

/** The function that a statement calls, or its first word and the table. */
function nameOf(text: string): string {
  const called = /"(\w+)"\(/.exec(text)?.[1]
  const table = /"lockstep"\.(?:")?(\w+)/.exec(text)?.[1] ?? ''
  return called ?? `${/\w+/.exec(text)?.[0].toUpperCase()} ${table}`.trim()
}
