import type { Found } from '../index.ts'
import { type Tried, writeAttempts } from './attempts.ts'
import { note, write, writeJson } from './output.ts'

/** Writes a page of what was found. `noun` is its unit, in the singular. */
export function writeFound<Item extends Tried>(
  found: Found<Item>,
  noun: string,
  json: boolean | undefined,
  tableOf: (items: readonly Item[]) => string,
): void {
  if (json) writeJson(found)
  else {
    write(found.items.length === 0 ? `no ${noun} matches` : tableOf(found.items))
    writeAttempts(found.items)
    if (found.next) note(`there are more; show them with --after ${found.next}`)
  }
}
