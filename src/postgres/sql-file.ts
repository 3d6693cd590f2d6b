import { readdir, readFile } from 'node:fs/promises'

const FOLDER = new URL('../../sql/', import.meta.url)

/** What a migration makes, in the order of the folders: what lies in `roles` grants, and is for the owner to run. */
export async function listSqlFiles(): Promise<string[]> {
  const files = await readdir(FOLDER, { recursive: true })
  return files
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /^\d-.*\.sql$/.test(file))
    .sort()
}

/** The text of a file in `sql/`, with a value for each `@place@`. In one pass: values may hold what looks like one. */
export async function readSql(file: string, values: Readonly<Record<string, string>>): Promise<string> {
  const text = await readFile(new URL(file, FOLDER), 'utf8')
  return text.replace(/@(\w+)@/g, (found, place: string) => values[place] ?? found)
}
