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

const EXPONENT = /\d[eE][+-]?(\d+)/g
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a] as const
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d] as const
/** After these, a part begins. */
const BEGINNINGS: readonly number[] = [OPENING_BRACKET, OPENING_BRACE, COLON, COMMA]
const ALONE: readonly number[] = [...BEGINNINGS, CLOSING_BRACKET, CLOSING_BRACE, QUOTE]
/** Digits of a number without an exponent that jsonb holds in any case. */
const SHORT = 1_000

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
  return compact(memberIn(json, name))
}

/** The same as it's written. */
export function memberIn(json: string, name: string): string {
  return partsOf(json).findLast((part) => part.name === name)?.text ?? ''
}

/** The elements of an array, as they are written. */
export function elementsOf(json: string): string[] {
  return partsOf(json).map(({ text }) => text)
}

interface Part {
  /** Undefined in an array. */
  readonly name: string | undefined
  readonly text: string
}

/** What an object or an array consists of. Looks at each character once, and copies none, since a text may be large. */
function partsOf(json: string): Part[] {
  const parts: Part[] = []
  let [depth, from, name]: [number, number, string | undefined] = [0, 0, undefined]
  const end = (at: number) => {
    const text = json.slice(from, at).trim()
    if (text !== '') parts.push({ name, text })
    name = undefined
  }
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) at = endOfText(json, at) - 1
    else if (code === CLOSING_BRACKET || code === CLOSING_BRACE) {
      depth -= 1
      if (depth === 0) end(at)
    } else if (depth === 1 && code === COLON) name = JSON.parse(json.slice(from, at))
    else if (depth === 1 && code === COMMA) end(at)
    if (code === OPENING_BRACKET || code === OPENING_BRACE) depth += 1
    const begins = depth === 1 && BEGINNINGS.includes(code)
    if (begins) from = at + 1
  }
  return parts
}

/** The first number that jsonb can't hold. */
export function numberBeyondJsonb(json: string): string | undefined {
  for (const token of tokensOf(json)) if (/^[-\d]/.test(token) && !fits(token)) return token
  return undefined
}

/** About how many characters longer the text is where numbers are written out, as Postgres does: for `1e300`, 300. */
export function growthOf(json: string): number {
  // Texts may look like numbers; only then is a closer look needed.
  if (zerosIn(json) === 0) return 0
  let growth = 0
  for (const token of tokensOf(json)) if (/^[-\d]/.test(token)) growth += zerosIn(token)
  return growth
}

function zerosIn(text: string): number {
  let zeros = 0
  for (const [, exponent] of text.matchAll(EXPONENT)) zeros += Number(exponent)
  return zeros
}

function fits(number: string): boolean {
  if (number.length < SHORT && !/e/i.test(number)) return true
  const [, whole = '', fraction = '', power = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(number)!
  const exponent = Number(power)
  if (Math.abs(exponent) > MAX_EXPONENT || fraction.length - exponent > MAX_FRACTION) return false
  const zeros = /^0*/.exec(whole + fraction)![0].length
  const isZero = zeros === whole.length + fraction.length
  return isZero || whole.length - zeros + exponent <= MAX_WHOLE
}

/** Yields strings with their quotes, numbers, words and marks. */
function* tokensOf(json: string): Generator<string> {
  for (let at = 0; at < json.length; ) {
    const code = json.charCodeAt(at)
    const end = code === QUOTE ? endOfText(json, at) : endOfWord(json, at)
    if (!isSpace(code)) yield json.slice(at, end)
    at = end
  }
}

function endOfText(json: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    const code = json.charCodeAt(at)
    if (code === BACKSLASH) at += 1
    else if (code === QUOTE) return at + 1
  }
}

/** Marks and spaces are alone. */
function endOfWord(json: string, start: number): number {
  let at = start
  while (at < json.length && !isSpace(json.charCodeAt(at)) && !ALONE.includes(json.charCodeAt(at))) at += 1
  return Math.max(at, start + 1)
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
