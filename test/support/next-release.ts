import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { SERIAL } from '../../src/postgres/serial.ts'
import { Copy } from '../mutants/copy.ts'
import { type Edit, source } from '../mutants/mutant.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The kind of release that may follow this one, by the policy of docs/upgrading.md. */
export interface NextReleaseOptions {
  /** Whether processes of this release can work with its definitions. */
  readonly servesThis: boolean
}

/**
 * The project as it might be one release later, in its own directory. Completions go through a function with a new
 * form, beside the old one; a view has a new column; and a migration has added a column to a table.
 */
export class NextRelease {
  readonly #copy = new Copy(ROOT)

  constructor({ servesThis }: NextReleaseOptions) {
    const serial = SERIAL + 1
    for (const edit of [...numbered(serial, servesThis ? undefined : serial), ...EDITS]) this.#copy.edit(edit)
    this.#write('migrations/9001_next.ts', MIGRATION)
    this.#write('sql/3-rounds/complete_noted.sql', completeNoted())
  }

  /** The URL of a module, for `fork`. */
  url(path: string): URL {
    return pathToFileURL(join(this.#copy.directory, path))
  }

  remove(): void {
    this.#copy.remove()
  }

  #write(path: string, text: string): void {
    writeFileSync(join(this.#copy.directory, path), text)
  }
}

function numbered(serial: number, oldestServed: number | undefined): Edit[] {
  const file = 'postgres/serial'
  const edits = [source(file, `SERIAL = ${SERIAL}\n`, `SERIAL = ${serial}\n`)]
  if (oldestServed === undefined) return edits
  const text = readFileSync(new URL(`../../src/${file}.ts`, import.meta.url), 'utf8')
  const [line] = /^export const OLDEST_SERVED = .*\n/m.exec(text)!
  return [...edits, source(file, line, `export const OLDEST_SERVED = ${oldestServed}\n`)]
}

const MIGRATION = `import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await sql\`alter table \${sql.id(schema, 'jobs')} add column note text\`.execute(db)
}
`

const EDITS: readonly Edit[] = [
  {
    file: 'migrations/index.ts',
    from: ' = {\n',
    to: " = {\n  '9001_next': () => import('./9001_next.ts'),\n",
  },
  { file: 'sql/5-views/process_list.sql', from: ' r.doing\n', to: ' r.doing, true AS noted\n' },
  source(
    'store/exchange',
    `.\${FUNCTIONS[kind]}(`,
    `.\${kind === 'complete' ? 'complete_noted' : FUNCTIONS[kind]}(`,
  ),
  source('store/exchange', ', false) c`', `, false\${kind === 'complete' ? ", 'noted'" : ''}) c\``),
]

/** Has one more parameter, and another name: with the old name, calls of the old form would be ambiguous. */
function completeNoted(): string {
  const text = readFileSync(new URL('../../sql/3-rounds/complete.sql', import.meta.url), 'utf8')
  const edited = text
    .replace('@schema@.complete(', '@schema@.complete_noted(')
    .replace('  _wait boolean\n', '  _wait boolean,\n  _note text\n')
  if (!edited.includes('_note text'))
    throw new Error('sql/3-rounds/complete.sql has changed: move what is edited here')
  return edited
}
