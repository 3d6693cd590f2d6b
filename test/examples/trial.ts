import { expect } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { postOrder, processesLeft, untilPerformed } from './orders.ts'
import { Script } from './script.ts'

/** ms. A pool that is not ended would keep the process for ten seconds. */
const STOPPING = 9_000

interface Way {
  /** Scripts that run side by side, the server first. */
  readonly scripts: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** With which the server ends at SIGTERM. Default 0. */
  readonly exitCode?: number
}

/** An installed example, tried as its README says, on a database of its own. */
export class Trial {
  readonly #folder: string
  readonly #database: TestDatabase
  readonly #scripts: Script[] = []

  private constructor(folder: string, database: TestDatabase) {
    this.#folder = folder
    this.#database = database
  }

  static async open(folder: string): Promise<Trial> {
    return new Trial(folder, await createDatabase())
  }

  async runs(name: string): Promise<string> {
    return this.#start(name).ends()
  }

  async passesItsTests(): Promise<void> {
    expect(await this.runs('test')).toMatch(/^# pass [1-9]/m)
  }

  /** Migrates, starts these scripts, sees that an order is performed, and stops all at once. */
  async performsAnOrder({ scripts, env, exitCode = 0 }: Way): Promise<void> {
    await this.runs('migrate')
    const [server, ...others] = scripts.map((name) => this.#start(name, env))
    const [url] = await server!.prints(/http:\/\/(127\.0\.0\.1|localhost):\d+/)
    await postOrder(url, { id: 'order-1', version: 1, status: 'created' })
    await untilPerformed(url, { id: 'order-1', history: ['created'] })
    const signalled = performance.now()
    for (const script of [server!, ...others]) script.signal('SIGTERM')
    await Promise.all([server!.ends(exitCode), ...others.map((other) => other.ends())])
    expect(performance.now() - signalled).toBeLessThan(STOPPING)
    expect(await processesLeft(this.#database)).toEqual([])
  }

  /** Leaves nothing behind, whether it went well or not. */
  async end(): Promise<void> {
    for (const script of this.#scripts) script.kill()
    await this.#database.drop()
  }

  #start(name: string, env: NodeJS.ProcessEnv = {}): Script {
    const { connectionString } = this.#database
    const script = new Script(this.#folder, name, { DATABASE_URL: connectionString, PORT: '0', ...env })
    this.#scripts.push(script)
    return script
  }
}
