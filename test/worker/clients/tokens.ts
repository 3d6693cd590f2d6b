import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { inject } from 'vitest'
import { execute } from '../../support/database.ts'
import type { WorkerEnvironment } from '../../support/worker-environment.ts'

/** A role whose password is a token that expires, as those of cloud providers do. */
export class Tokens {
  readonly role = `token ${randomBytes(4).toString('hex')}`
  /** Has the place and the token that is good now. */
  readonly file = join(tmpdir(), `${this.role}.json`)
  readonly #env: WorkerEnvironment
  #current = ''
  /** What fetching one fails with. */
  failure: Error | undefined
  fetched = 0

  constructor(env: WorkerEnvironment) {
    this.#env = env
  }

  static async create(env: WorkerEnvironment): Promise<Tokens> {
    const tokens = new Tokens(env)
    await env.sql(`CREATE ROLE ${pg.escapeIdentifier(tokens.role)} LOGIN SUPERUSER`)
    await tokens.rotate()
    return tokens
  }

  /** The tokens of before are refused from now on. */
  async rotate(): Promise<void> {
    this.#current = `secret-${randomBytes(8).toString('hex')}`
    await this.#env.sql(
      `ALTER ROLE ${pg.escapeIdentifier(this.role)} PASSWORD ${pg.escapeLiteral(this.#current)}`,
    )
    await writeFile(this.file, JSON.stringify({ ...this.place, password: this.#current }))
  }

  readonly fetch = async (): Promise<string> => {
    this.fetched += 1
    if (this.failure) throw this.failure
    return this.#current
  }

  /** Without the password. */
  get place(): { host: string; port: number; database: string; user: string } {
    const { hostname: host, port, pathname } = new URL(this.#env.connectionString)
    return { host, port: Number(port), database: decodeURIComponent(pathname.slice(1)), user: this.role }
  }

  async sessions(): Promise<{ pid: number; query: string }[]> {
    return this.#env.sql('SELECT pid, query FROM pg_stat_activity WHERE usename = $1', [this.role])
  }

  async cut(): Promise<void> {
    await this.#env.sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [
      this.role,
    ])
  }

  /** At the very end: the role may own nothing, and no session of it may be left. */
  async drop(): Promise<void> {
    await this.cut()
    await rm(this.file)
    await execute(inject('serverUrl'), `DROP ROLE ${pg.escapeIdentifier(this.role)}`)
  }
}
