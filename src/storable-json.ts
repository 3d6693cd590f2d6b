import { growthOf, JsonText, numberBeyondJsonb } from './json-text.ts'
import { nameOf, show } from './options.ts'

const MIB = 1_024 * 1_024
/** Of a result, in MiB: of its text, and of that with its numbers written out, as it is read. */
const [MAX_RESULT, MAX_WRITTEN_OUT] = [1, 2]

/** A `\u0000` or an unpaired surrogate as JSON.stringify writes it; jsonb can't hold either. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(0000|d[89a-f][0-9a-f]{2})/

/** What to throw, for a problem that continues a sentence about the value. */
type ToError = (problem: string) => Error

/**
 * The JSON text of a payload or result of `most` MiB at most, as Postgres’ jsonb can hold it. That of a JsonText stays as it was
 * written: JavaScript would change digits, and drop one of two payloads that differ (R2).
 */
export function storableJson(value: unknown, most: number, toError: ToError): string {
  const json = toJson(value, toError)
  const text = value instanceof JsonText ? value.text : json
  const bytes = Buffer.byteLength(text)
  if (bytes > most * MIB)
    throw toError(
      `must be at most ${most} MiB, not ${bytes} bytes: store large data elsewhere and push a reference to it`,
    )
  if (text !== json) requireNumbers(text, toError)
  requireStorable(json, toError)
  return text
}

/**
 * The same for what a round has come to. JSON makes an empty object of a promise and of a Map, and whoever waits would never know what
 * was in it.
 */
export function storableResult(value: unknown, toError: ToError): string {
  if (value instanceof Promise) throw toError('is a promise: await it first')
  if (value instanceof Map) throw toError('is a Map, which JSON can’t hold: turn it into plain data first')
  const json = storableJson(value, MAX_RESULT, toError)
  if (json.length + growthOf(json) > MAX_WRITTEN_OUT * MIB)
    throw toError(
      `must be at most ${MAX_WRITTEN_OUT} MiB with its numbers written out: store large data elsewhere and push a reference to it`,
    )
  return json
}

/** The server would refuse such a number without naming the job. */
function requireNumbers(json: string, toError: ToError): void {
  const number = numberBeyondJsonb(json)
  if (number === undefined) return
  const shown = number.length > 40 ? `${number.slice(0, 39)}…` : number
  throw toError(`has the number ${shown}, which Postgres’ jsonb can’t hold: quote it, to make it text`)
}

/** The JSON text of `value`. */
export function toJson(value: unknown, toError: ToError): string {
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (error) {
    if (/call stack/.test(reasonOf(error)))
      throw toError('can’t be written as JSON: it nests too deeply, so flatten it')
    throw toError(`can’t be written as JSON (${reasonOf(error)}): turn it into plain data first`)
  }
  if (json === undefined) throw toError(`can’t be written as JSON: it is ${show(value)}`)
  return json
}

/** A toJSON or getter of the value may throw anything. */
function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.message}`.split('\n')[0]! : `it threw ${nameOf(thrown)}`
}

/** The same text, if Postgres’ jsonb can hold it. `json` is what JSON.stringify has written. */
export function requireStorable(json: string, toError: ToError): string {
  const [, code] = UNSTORABLE.exec(json) ?? []
  if (!code) return json
  throw toError(`contains \\u${code}, which Postgres’ jsonb can’t hold: remove or encode it`)
}
