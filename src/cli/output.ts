import Table from 'cli-table3'
import pc from 'picocolors'
import type { Logger } from '../index.ts'

const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * Text from ids, payloads and errors for a terminal: what would move the cursor, change colours or turn the
 * reading direction is shown as an escape.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    const code = character.codePointAt(0)!
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`
  })
}

/** The same for text of several lines, such as an error's: line breaks and tabs stay. */
export function legible(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** JSON that a terminal may show: what JSON.stringify leaves as it is, but would do something there, is escaped. */
export function escapeJson(json: string): string {
  return json.replace(UNSAFE, (character) =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** What `printable` makes of it, cut to `length` characters. */
export function excerpt(text: string, length: number): string {
  const characters = [...text.slice(0, 2 * length + 2)]
  const shown = characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : text
  return printable(shown)
}

/** Undefined where it is nested deeper than JSON.stringify goes: some thousands of levels, which SQL stores and JSON.parse reads. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** The beginning of a payload as JSON; one that is nested deeper than can be written is named as such. */
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
    `${plural(left, 'payload')} nested too deep to be written as JSON: shown as null, SQL shows the whole.`,
  )
  return json
}

/** News beside the result, so that what goes through a pipe stays clean. */
export function note(text: string): void {
  // A progress bar may stand on the line.
  process.stderr.write(`${process.stderr.isTTY ? '\r\x1b[K' : ''}lockstep: ${legible(text)}\n`)
}

export const stderrLogger: Logger = {
  debug() {},
  info() {},
  warn: (_, message) => note(message),
  error: (_, message) => note(message),
}

/** Colours where `stream` is a terminal and NO_COLOR doesn't forbid them. */
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
