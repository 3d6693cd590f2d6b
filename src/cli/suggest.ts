import { closest, distance } from 'fastest-levenshtein'
import { show } from '../options.ts'
import { printable } from './output.ts'

const SHOWN = 40

/** The known names, preceded by `did you mean "orders"?` if one is similar. */
export function suggestion(name: string, known: readonly string[]): string {
  if (known.length === 0) return 'there are none'
  const near = nearestOf(name, known)
  const list = known.slice(0, SHOWN).map((one) => printable(one))
  if (known.length > SHOWN) list.push('…')
  const hint = near === undefined ? '' : `did you mean ${quote(near)}? `
  return `${hint}there are: ${list.join(', ')}`
}

/** Undefined if no known name is similar. */
export function nearestOf(name: string, known: readonly string[]): string | undefined {
  const nearest = closest(name, known)
  return distance(name, nearest) <= Math.max(2, name.length / 3) ? nearest : undefined
}

export function quote(text: string): string {
  return printable(show(text))
}
