import { closest, distance } from 'fastest-levenshtein'
import { show } from '../options.ts'
import { printable } from './output.ts'

const SHOWN = 40

/** `did you mean "orders"?` where one is near, else the list of those there are. */
export function suggestion(name: string, known: readonly string[]): string {
  if (known.length === 0) return 'there are none'
  const nearest = closest(name, known)
  const list = known.slice(0, SHOWN).map((one) => printable(one))
  if (known.length > SHOWN) list.push('…')
  const hint =
    distance(name, nearest) <= Math.max(2, name.length / 3) ? `did you mean ${quote(nearest)}? ` : ''
  return `${hint}there are: ${list.join(', ')}`
}

export function quote(text: string): string {
  return printable(show(text))
}
