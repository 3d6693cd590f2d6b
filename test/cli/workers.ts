import pg from 'pg'
import { afterAll, afterEach, beforeAll, vi } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Command, fixture } from './command.ts'

/** A migrated database for the tests of one file, and `lockstep work`, in processes that are killed after each test. */
export class CommandWorkers {
  library!: Lockstep
  client!: pg.Client
  /** The variables of a command line. */
  env!: NodeJS.ProcessEnv
  #database!: TestDatabase
  readonly #started: Command[] = []

  /** Starts `lockstep work` with the queues of a fixture. */
  work(file: string, ...args: string[]): Command {
    return this.start(new Command(['work', '-r', fixture(file), ...args], { env: this.env }))
  }

  /** Kills it after the test. */
  start(command: Command): Command {
    this.#started.push(command)
    return command
  }

  async open(): Promise<void> {
    this.#database = await createDatabase()
    const { connectionString } = this.#database
    this.env = { DATABASE_URL: connectionString }
    this.client = new pg.Client(connectionString)
    await this.client.connect()
    this.library = new Lockstep({ connectionString })
    await this.library.migrate()
  }

  killAll(): void {
    for (const { child } of this.#started.splice(0)) child.kill('SIGKILL')
  }

  async close(): Promise<void> {
    await this.library.close()
    await this.client.end()
    await this.#database.drop()
  }
}

export function useCommandWorkers(): CommandWorkers {
  vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })
  const workers = new CommandWorkers()
  beforeAll(() => workers.open())
  afterEach(() => workers.killAll())
  afterAll(() => workers.close())
  return workers
}
