import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import { SERIAL } from '../../src/postgres/serial.ts'
import { Copy } from '../mutants/copy.ts'
import { source } from '../mutants/mutant.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Of the definitions in the file. */
const PREVIOUS = 22

/** The SQL that creates the schema as it was when each job took two rows. */
export function previousDefinitions(): string {
  return readFileSync(new URL(`definitions-${PREVIOUS}.sql`, import.meta.url), 'utf8')
}

/** The grants of then, to these roles. */
export function previousRoles(roles: Readonly<Record<'producer' | 'worker' | 'viewer', string>>): string {
  const text = readFileSync(new URL(`roles-${PREVIOUS}.sql`, import.meta.url), 'utf8')
  const values: Readonly<Record<string, string>> = {
    schema: '"lockstep"',
    names: Object.values(roles).map(pg.escapeLiteral).join(', '),
    ...Object.fromEntries(Object.entries(roles).map(([place, role]) => [place, pg.escapeIdentifier(role)])),
  }
  return text.replace(/@(\w+)@/g, (_, place: string) => values[place]!)
}

/** The project as it was before `0002_first_payload`, as far as its processes call the database, in its own directory. */
export class PreviousBuild {
  readonly #copy = new Copy(ROOT)

  constructor() {
    this.#copy.edit(source('postgres/serial', `SERIAL = ${SERIAL}\n`, `SERIAL = ${PREVIOUS}\n`))
    this.#copy.edit({
      file: 'migrations/index.ts',
      from: "  '0002_first_payload': () => import('./0002_first_payload.ts'),\n",
      to: '',
    })
    this.#copy.edit(source('store/settle', "'lock_claims'", "'lock_rounds'"))
  }

  /** The URL of a module, for `fork`. */
  url(path: string): URL {
    return pathToFileURL(join(this.#copy.directory, path))
  }

  remove(): void {
    this.#copy.remove()
  }
}
