import type pg from 'pg'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { rolesSql } from '../../src/postgres/roles.ts'
import { Logins } from './logins.ts'

/** A name that needs quoting everywhere. */
export const SCHEMA = 'Work Place'
export const prefix = `"${SCHEMA}"`

/** Which logins have which roles of `lockstep roles`. The owner is not a superuser; the stranger was granted nothing. */
const ROLES_OF: Readonly<Record<string, readonly string[]>> = {
  producer: ['may push'],
  worker: ['may work'],
  viewer: ['may look'],
  both: ['may push', 'may work'],
  gateway: ['may serve'],
  stranger: [],
}

/** A migrated schema with its roles, and logins for them. */
export class RoleEnvironment {
  logins!: Logins
  /** The SQL that the owner ran. */
  sql!: string
  #undo: (() => unknown)[] = []

  async open(): Promise<void> {
    this.logins = await Logins.open()
    const { logins } = this
    await logins.create('owner', 'CREATEROLE')
    const [row] = await logins.asAdmin<{ database: string }>('SELECT current_database() AS database')
    await logins.asAdmin(`GRANT CREATE ON DATABASE "${row!.database}" TO "${logins.role('owner')}"`)
    await this.lockstep('owner').migrate()
    this.sql = await rolesSql(SCHEMA, {
      producer: logins.role('may push'),
      worker: logins.role('may work'),
      viewer: logins.role('may look'),
      gateway: logins.role('may serve'),
    })
    await this.session('owner').query(this.sql)
    for (const [name, roles] of Object.entries(ROLES_OF)) {
      await logins.create(name)
      for (const role of roles) await logins.asAdmin(`GRANT "${logins.role(role)}" TO "${logins.role(name)}"`)
    }
    await this.tidy()
  }

  /** Runs after the test, in reverse order. */
  later(undo: () => unknown): void {
    this.#undo.push(undo)
  }

  lockstep(name: string, schema = SCHEMA): Lockstep {
    const lockstep = new Lockstep({ connectionString: this.logins.url(name), schema })
    this.later(() => lockstep.close())
    return lockstep
  }

  /** One session of `name`. */
  session(name: string): pg.Pool {
    return this.logins.pool(name)
  }

  async tidy(): Promise<void> {
    for (const undo of this.#undo.splice(0).reverse()) await undo()
  }
}

/** Opens an environment for the tests of the calling file. */
export function useRoles(): RoleEnvironment {
  const env = new RoleEnvironment()
  beforeAll(() => env.open())
  afterEach(() => env.tidy())
  afterAll(() => env.logins.close())
  return env
}
