import type { Database, Queryable } from '../postgres/database.ts'

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
  texts: readonly string[],
  on?: Queryable,
): Promise<readonly string[]> {
  if (!texts.some((text) => BEYOND_ASCII.test(text)) || (await canHoldAll(database, on))) return texts
  return texts.map((text) => text.replace(EACH_BEYOND, escapeOf))
}

async function canHoldAll(database: Database, on: Queryable | undefined): Promise<boolean> {
  const known = takesAll.get(database)
  if (known !== undefined) return known
  const [row] = await database.query<{ encoding: string }>(
    `SELECT current_setting('server_encoding') AS encoding`,
    [],
    on,
  )
  const answer = TAKES_ALL.includes(row!.encoding)
  takesAll.set(database, answer)
  return answer
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`
}
