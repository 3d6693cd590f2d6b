/**
 * A payload as its JSON text, in which every number has all its digits: JavaScript would change some. Where it's looked at as
 * a value, it is what JavaScript makes of it.
 */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  toJSON(): unknown {
    return JSON.parse(this.text)
  }
}

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const BETWEEN = /[ \t\r\n]*(?:([[\]{},:])|([^\s"[\]{},:]+))?/y

/** The most digits that jsonb holds before and after the point. */
const [MAX_WHOLE, MAX_FRACTION] = [131_072, 16_383]
/** Postgres refuses a larger exponent even for zero. */
const MAX_EXPONENT = 1_000_000_000

/**
 * Whether JSON.parse and JSON.stringify might change a number: `1.0`, `1e400`, 17 digits. Text that looks like such a
 * number counts too, which costs a closer look and nothing else.
 */
export function hasNumbersToKeep(json: string): boolean {
  for (const [number] of json.matchAll(NUMBER))
    if (String(Number(number)) !== number && !/^-?0\d/.test(number)) return true
  return false
}

/** Valid JSON without spaces; every number keeps its digits. */
export function compact(json: string): string {
  return [...tokensOf(json)].join('')
}

/** Compacts an object's member. If a name occurs several times, takes the last, as JSON.parse and Postgres do. */
export function memberOf(json: string, name: string): string {
  let [found, depth, isValue, matches] = ['', 0, false, false]
  for (const token of tokensOf(json)) {
    if (token === '}' || token === ']') depth -= 1
    if (depth === 0 || (depth === 1 && token === ',')) isValue = false
    else if (depth === 1 && token === ':') {
      isValue = true
      if (matches) found = ''
    } else if (!isValue) matches = JSON.parse(token) === name
    else if (matches) found += token
    if (token === '{' || token === '[') depth += 1
  }
  return found
}

/** The elements of an array, compacted. */
export function elementsOf(json: string): string[] {
  const elements: string[] = []
  let [found, depth] = ['', 0]
  for (const token of tokensOf(json)) {
    if (token === '}' || token === ']') depth -= 1
    const ends = depth === 0 || (depth === 1 && token === ',')
    if (ends && found !== '') {
      elements.push(found)
      found = ''
    } else if (!ends) found += token
    if (token === '{' || token === '[') depth += 1
  }
  return elements
}

/** The first number that jsonb can't hold. */
export function numberBeyondJsonb(json: string): string | undefined {
  for (const token of tokensOf(json)) if (/^[-\d]/.test(token) && !fits(token)) return token
  return undefined
}

function fits(number: string): boolean {
  const [, whole = '', fraction = '', power = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(number)!
  const exponent = Number(power)
  if (Math.abs(exponent) > MAX_EXPONENT || fraction.length - exponent > MAX_FRACTION) return false
  const zeros = /^0*/.exec(whole + fraction)![0].length
  const isZero = zeros === whole.length + fraction.length
  return isZero || whole.length - zeros + exponent <= MAX_WHOLE
}

/** Yields strings with their quotes, numbers, words and marks. A string may be long, so no pattern matches all of it. */
function* tokensOf(json: string): Generator<string> {
  for (let at = 0; at < json.length; ) {
    BETWEEN.lastIndex = at
    const [space, mark, word] = BETWEEN.exec(json)!
    at += space.length
    const token = mark ?? word
    if (token !== undefined) yield token
    else if (at < json.length) {
      const end = endOfText(json, at)
      yield json.slice(at, end)
      at = end
    }
  }
}

function endOfText(json: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    if (json[at] === '\\') at += 1
    else if (json[at] === '"') return at + 1
  }
}
