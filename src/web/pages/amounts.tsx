/** Numbers as people read them. All times are in ms unless the name says otherwise. */

const WHOLE = new Intl.NumberFormat('en')

export function count(n: number): string {
  return WHOLE.format(n)
}

/** A count in a table; a zero steps back, so that others are seen. */
export function Count({ n, state }: { n: number; state?: 'working' | 'retrying' | 'dead' | undefined }) {
  return <span class={n === 0 ? 'zero' : state}>{count(n)}</span>
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const

/** `3 min 20 s`, `2 d 4 h`: two units at most. */
export function duration(ms: number): string {
  if (ms < 1_000) return ms < 1 ? '0 s' : `${Math.round(ms)} ms`
  const at = UNITS.findIndex(([unit]) => ms >= unit)
  const [unit, name] = UNITS[at]!
  if (name === 's') return `${ms < 10_000 ? (ms / 1_000).toFixed(1) : Math.round(ms / 1_000)} s`
  const [lower, lowerName] = UNITS[at + 1]!
  const whole = Math.floor(ms / unit)
  const rest = Math.floor((ms - whole * unit) / lower)
  return rest === 0 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${lowerName}`
}

/** A second. */
export function rate(perSecond: number | undefined): string {
  if (perSecond === undefined) return '–'
  if (perSecond === 0) return '0'
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond))
}

export function bytes(n: number): string {
  return n < 1_000_000 ? `${count(Math.round(n / 1_000))} kB` : `${count(Math.round(n / 1_000_000))} MB`
}

/** `1 job`, `1,200 jobs`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`
}

/** Of an error, which goes on with its stack. */
export function firstLine(text: string | null): string {
  return text?.split('\n', 1)[0] ?? ''
}
