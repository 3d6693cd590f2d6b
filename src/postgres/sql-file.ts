import { readdir, readFile } from 'node:fs/promises'

const FOLDER = new URL('../../sql/', import.meta.url)

/** What stands in `sql/` itself, not in its folders. */
export async function listSqlFiles(): Promise<string[]> {
  return (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).sort()
}

/** The text of a file in `sql/`, with a value for each `@place@`. In one pass: values may hold what looks like one. */
export async function readSql(file: string, values: Readonly<Record<string, string>>): Promise<string> {
  const text = await readFile(new URL(file, FOLDER), 'utf8')
  return text.replace(/@(\w+)@/g, (found, place: string) => values[place] ?? found)
}
