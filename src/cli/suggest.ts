import { closest, distance } from 'fastest-levenshtein'
import { show } from '../options.ts'
import { printable } from './output.ts'

const SHOWN = 40

/** `did you mean "orders"?` where one is near, else the list of those there are. */
export function suggestion(name: string, known: readonly string[]): string {
  if (known.length === 0) return 'there are none'
  const near = nearestOf(name, known)
  const list = known.slice(0, SHOWN).map((one) => printable(one))
  if (known.length > SHOWN) list.push('…')
  const hint = near === undefined ? '' : `did you mean ${quote(near)}? `
  return `${hint}there are: ${list.join(', ')}`
}

/** Undefined where none is near. */
export function nearestOf(name: string, known: readonly string[]): string | undefined {
  const nearest = closest(name, known)
  return distance(name, nearest) <= Math.max(2, name.length / 3) ? nearest : undefined
}

export function quote(text: string): string {
  return printable(show(text))
}
