import { readdirSync } from 'node:fs'
import { basename } from 'node:path'

/** A change of the protocol that a test has to notice. */
export interface Mutant {
  readonly name: string
  /** The promise or rule it attacks. */
  readonly promise: string
  /** What goes wrong, in a sentence. */
  readonly breaks: string
  readonly edits: readonly Edit[]
  /** Where it should be noticed, the likeliest first, without `test/` and `.test.ts`. */
  readonly tests: readonly string[]
}

export interface Edit {
  readonly file: string
  /** Stands in the file exactly as often as `times`. */
  readonly from: string
  readonly to: string
  /** Default 1. */
  readonly times?: number
}

const SQL_FILES = readdirSync(new URL('../../sql/', import.meta.url), { recursive: true, encoding: 'utf8' })

/** Of what a file in one of the folders of `sql/` defines. */
export function sql(name: string, from: string, to: string, times = 1): Edit {
  const file = SQL_FILES.find((one) => basename(one) === `${name}.sql`)
  return { file: `sql/${file}`, from, to, times }
}

export function source(name: string, from: string, to: string): Edit {
  return { file: `src/${name}.ts`, from, to }
}

/** @throws Error where the source has moved on */
export function mutate({ file, from, to, times = 1 }: Edit, text: string): string {
  const found = text.split(from).length - 1
  if (found !== times) throw new Error(`${file} has ${found} of ${JSON.stringify(from)}, not ${times}`)
  return text.replaceAll(from, () => to)
}
