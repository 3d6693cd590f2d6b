import Table from 'cli-table3'
import pc from 'picocolors'

const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * Text from ids, payloads and errors, safe for a terminal: characters that move the cursor, change colours or
 * reverse the reading direction become escapes.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    const code = character.codePointAt(0)!
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`
  })
}

/** Like `printable`, but keeps line breaks and tabs, for text such as an error's. */
export function legible(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** JSON that is safe for a terminal: escapes the control characters that JSON.stringify leaves as they are. */
export function escapeJson(json: string): string {
  return json.replace(UNSAFE, (character) =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Printable text, cut to `length` characters. */
export function excerpt(text: string, length: number): string {
  const characters = [...text.slice(0, 2 * length + 2)]
  const shown = characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : text
  return printable(shown)
}

/** Undefined for thousands of nested levels: SQL stores and JSON.parse reads them, but JSON.stringify fails. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** The beginning of a payload as JSON, or a note that it is nested too deep to be written. */
export function excerptOfPayload(payload: unknown, length: number): string {
  const json = jsonOf(payload)
  return json === undefined ? '(nested too deep)' : excerpt(json, length)
}

export function write(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function writeJson(value: unknown): void {
  write(escapeJson(jsonOf(value) ?? withoutDeepPayloads(value)))
}

function withoutDeepPayloads(value: unknown): string {
  let left = 0
  const json = JSON.stringify(value, (key, part) => {
    if (key !== 'payload' || jsonOf(part) !== undefined) return part
    left += 1
    return null
  })
  note(
    `${plural(left, 'payload')} nested too deep to be written as JSON: shown as null; use SQL to see all of it`,
  )
  return json
}

/** Goes to stderr, so that the result on stdout stays clean for a pipe. */
export function note(text: string): void {
  // A progress bar may stand on the line.
  process.stderr.write(`${process.stderr.isTTY ? '\r\x1b[K' : ''}lockstep: ${legible(text)}\n`)
}

/** Colours if `stream` is a terminal and NO_COLOR is not set. */
export function colorsFor(stream: NodeJS.WriteStream) {
  const { NO_COLOR, TERM, FORCE_COLOR } = process.env
  return pc.createColors(Boolean(FORCE_COLOR) || (stream.isTTY === true && !NO_COLOR && TERM !== 'dumb'))
}

export interface Column {
  readonly head: string
  readonly right?: boolean
}

/** Cells must be printable already. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const { bold } = colorsFor(process.stdout)
  const frame = new Table({
    head: columns.map(({ head }) => bold(head)),
    colAligns: columns.map(({ right }) => (right ? 'right' : 'left')),
    style: { head: [], border: [], compact: true },
  })
  frame.push(...rows.map((row) => [...row]))
  return frame.toString()
}

export function count(value: number): string {
  return value.toLocaleString('en-US')
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** 1.5 s, 2 min 3 s, 4 h 5 min. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  const place = UNITS.findIndex(([, length]) => ms >= length)
  const [unit, length] = UNITS[place]!
  const [smaller, part] = UNITS[place + 1]!
  const rest = Math.floor((ms % length) / part)
  return `${Math.floor(ms / length)} ${unit}${rest > 0 ? ` ${rest} ${smaller}` : ''}`
}

export function plural(number: number, noun: string, many = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : many}`
}
