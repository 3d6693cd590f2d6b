import type { Database, Queryable } from '../postgres/database.ts'
import { firstValue, runThrough, type Through } from './through.ts'

const BEYOND_ASCII = /\P{ASCII}/u
const EACH_BEYOND = /\P{ASCII}/gu
/** SQL_ASCII accepts any bytes. */
const TAKES_ALL = ['UTF8', 'SQL_ASCII']

const takesAll = new WeakMap<Database, boolean>()

/**
 * Makes our own texts storable: if the database's encoding lacks characters, all beyond ASCII become escapes. A push with
 * such a character is refused, but the end of a round must be stored all the same.
 */
export async function storable(
  database: Database,
  texts: readonly (string | null)[],
  on?: Queryable | Through,
): Promise<readonly (string | null)[]> {
  if (!texts.some((text) => text !== null && BEYOND_ASCII.test(text)) || (await canHoldAll(database, on)))
    return texts
  return texts.map((text) => text?.replace(EACH_BEYOND, escapeOf) ?? null)
}

const ENCODING = `SELECT pg_catalog.current_setting('server_encoding') AS encoding`

async function canHoldAll(database: Database, on: Queryable | Through | undefined): Promise<boolean> {
  const known = takesAll.get(database)
  if (known !== undefined) return known
  const rows = on && 'run' in on ? await runThrough(on, ENCODING) : await database.query(ENCODING, [], on)
  const answer = TAKES_ALL.includes(firstValue(rows) as string)
  takesAll.set(database, answer)
  return answer
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`
}
