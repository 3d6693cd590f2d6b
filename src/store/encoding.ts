import type { Database, Queryable } from '../postgres/database.ts'

const BEYOND_ASCII = /\P{ASCII}/u
const EACH_BEYOND = /\P{ASCII}/gu
/** SQL_ASCII takes any bytes. */
const TAKES_ALL = ['UTF8', 'SQL_ASCII']

const takesAll = new WeakMap<Database, boolean>()

/**
 * Texts of ours as the database can hold them: where its encoding lacks characters, those beyond ASCII become escapes.
 * What is pushed is refused for such a character; how a round ended has to be stored all the same.
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
