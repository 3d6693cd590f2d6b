import { readdirSync } from 'node:fs'
import { basename } from 'node:path'

/** A change of the protocol that a test must notice. */
export interface Mutant {
  readonly name: string
  /** The promise or rule that it attacks. */
  readonly promise: string
  /** What goes wrong, in a sentence. */
  readonly breaks: string
  readonly edits: readonly Edit[]
  /** The tests that should notice it, the likeliest first, without `test/` and `.test.ts`. */
  readonly tests: readonly string[]
}

export interface Edit {
  readonly file: string
  /** Must be in the file exactly `times` times. */
  readonly from: string
  readonly to: string
  /** Default 1. */
  readonly times?: number
}

const SQL_FILES = readdirSync(new URL('../../sql/', import.meta.url), { recursive: true, encoding: 'utf8' })

/** An edit of what a file in one of the folders of `sql/` defines. */
export function sql(name: string, from: string, to: string, times = 1): Edit {
  const file = SQL_FILES.find((one) => basename(one) === `${name}.sql`)
  return { file: `sql/${file}`, from, to, times }
}

export function source(name: string, from: string, to: string): Edit {
  return { file: `src/${name}.ts`, from, to }
}

/** @throws Error if the source has changed at that place */
export function mutate({ file, from, to, times = 1 }: Edit, text: string): string {
  const found = text.split(from).length - 1
  if (found !== times) throw new Error(`${file} has ${found} of ${JSON.stringify(from)}, not ${times}`)
  return text.replaceAll(from, () => to)
}
