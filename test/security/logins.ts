import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { createDatabase, execute, type TestDatabase } from '../support/database.ts'

/** Roles belong to the whole server, and two test files may run at once: so each run has its own names. */
const RUN = randomBytes(4).toString('hex')

/** A database, and roles that log into it with their own passwords. */
export class Logins {
  readonly #database: TestDatabase
  readonly #admin: pg.Client
  readonly #pools: pg.Pool[] = []
  readonly #roles = new Set<string>()
  readonly #passwords = new Map<string, string>()

  private constructor(database: TestDatabase, admin: pg.Client) {
    this.#database = database
    this.#admin = admin
  }

  static async open(): Promise<Logins> {
    const database = await createDatabase()
    const admin = new pg.Client(database.connectionString)
    admin.on('error', () => {})
    await admin.connect()
    return new Logins(database, admin)
  }

  /** A name that no other run uses. The role is dropped at the end, whoever created it. */
  role(name: string): string {
    const role = `${name} ${RUN}`
    this.#roles.add(role)
    return role
  }

  /** Creates a role that logs in as `role(name)`; `may` as in CREATE ROLE. */
  async create(name: string, may = '', password = randomBytes(12).toString('hex')): Promise<void> {
    this.#passwords.set(name, password)
    const role = pg.escapeIdentifier(this.role(name))
    await this.asAdmin(`CREATE ROLE ${role} LOGIN ${may} PASSWORD ${pg.escapeLiteral(password)}`)
  }

  async asAdmin<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]> {
    return (await this.#admin.query(text, values)).rows
  }

  url(name: string): string {
    const url = new URL(this.#database.connectionString)
    url.username = encodeURIComponent(this.role(name))
    url.password = encodeURIComponent(this.#passwords.get(name)!)
    return url.href
  }

  /** A pool for `name`, with one session at a time. */
  pool(name: string): pg.Pool {
    const pool = new pg.Pool({ connectionString: this.url(name), max: 1 })
    pool.on('error', () => {})
    this.#pools.push(pool)
    return pool
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()))
    await this.#admin.end()
    await this.#database.drop()
    const drops = [...this.#roles].map((role) => `DROP ROLE IF EXISTS ${pg.escapeIdentifier(role)}`)
    await execute(inject('serverUrl'), drops.join('; '))
  }
}
