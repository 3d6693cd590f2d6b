import { readdir, readFile } from 'node:fs/promises'
import { SOURCE } from '../location.ts'

const FOLDER = new URL('../sql/', SOURCE)

/** The files that a migration runs, in the order of the folders. Excludes `roles`, which the owner runs to grant rights. */
export async function listSqlFiles(): Promise<string[]> {
  const files = await readdir(FOLDER, { recursive: true })
  return files
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /^\d-.*\.sql$/.test(file))
    .sort()
}

/** Reads a file in `sql/` and replaces each `@place@`. In one pass, since a value may look like a place. */
export async function readSql(file: string, values: Readonly<Record<string, string>>): Promise<string> {
  const text = await readFile(new URL(file, FOLDER), 'utf8')
  return text.replace(/@(\w+)@/g, (found, place: string) => values[place] ?? found)
}
