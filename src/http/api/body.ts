import { hasNumbersToKeep, JsonText, memberIn } from '../../json-text.ts'
import { show } from '../../options.ts'
import type { Asked } from '../../serving/asked.ts'
import { Problem } from '../../serving/problem.ts'
import type { Intake } from '../bodies.ts'
import { refused } from './problems.ts'

export interface BodyLimits {
  /** Bytes. */
  readonly maxBody: number
  /** ms. */
  readonly bodyTimeout: number
}

/** Levels of nesting; Postgres and most languages give up some way above. */
const MAX_DEPTH = 500

/** A body as text, and what JavaScript makes of it. */
export interface Body {
  readonly text: string
  readonly value: unknown
  readonly bytes: Buffer
}

/** @throws Problem */
export async function readBody(asked: Asked, limits: BodyLimits, intake: Intake): Promise<Body> {
  refuseType(asked.headers)
  return bodyIn(await readBytes(asked, limits, intake))
}

/** For routes that may do without one: an empty object then. */
export async function readOptionalBody(asked: Asked, limits: BodyLimits, intake: Intake): Promise<Body> {
  if (asked.headers.has('content-type')) refuseType(asked.headers)
  const bytes = await readBytes(asked, limits, intake)
  if (bytes.length === 0) return bodyIn(Buffer.from('{}'))
  refuseType(asked.headers)
  return bodyIn(bytes)
}

/** @throws Problem */
function bodyIn(bytes: Buffer): Body {
  const text = textOf(bytes)
  refuseDepth(text)
  try {
    return { text, value: JSON.parse(text), bytes }
  } catch {
    const problem = bytes.length === 0 ? 'the body is empty' : 'the body is not JSON'
    throw new Problem(400, 'LOCKSTEP_BAD_JSON', problem)
  }
}

/** A compressed body could unfold to any size. */
function refuseType(headers: Headers): void {
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    throw new Problem(415, 'LOCKSTEP_MEDIA_TYPE', `Content-Encoding is not taken: send the body as it is`, {
      'accept-encoding': 'identity',
    })
  const type = headers.get('content-type') ?? ''
  if (!/^application\/json *(;|$)/i.test(type))
    throw new Problem(415, 'LOCKSTEP_MEDIA_TYPE', `Content-Type must be application/json, not ${show(type)}`)
  const [, charset = 'utf-8'] = /;\s*charset="?([^";\s]+)/i.exec(type) ?? []
  if (charset.toLowerCase() !== 'utf-8')
    throw new Problem(415, 'LOCKSTEP_MEDIA_TYPE', `the charset must be utf-8, not ${show(charset)}`)
}

/** Stops at the limits, whatever the headers say, and when its time is over. */
async function readBytes(asked: Asked, limits: BodyLimits, intake: Intake): Promise<Buffer> {
  if (Number(asked.headers.get('content-length')) > limits.maxBody) throw tooLarge(limits)
  const chunks: Uint8Array[] = []
  let size = 0
  const isWhole = await asked.read((chunk) => {
    chunks.push(chunk)
    size += chunk.length
    if (size > limits.maxBody) throw tooLarge(limits)
    intake.add(chunk.length)
  }, limits.bodyTimeout)
  if (!isWhole)
    throw new Problem(408, 'LOCKSTEP_SLOW_BODY', `the body did not come within ${limits.bodyTimeout} ms`)
  return Buffer.concat(chunks)
}

function tooLarge({ maxBody }: BodyLimits): Problem {
  return new Problem(
    413,
    'LOCKSTEP_TOO_LARGE',
    `the body has more than ${maxBody} bytes: send fewer jobs at once, or a reference to what is large`,
  )
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new Problem(400, 'LOCKSTEP_BAD_JSON', 'the body is not UTF-8')
  }
}

/** Deeper values could be parsed, but neither be written again nor be read by many. */
function refuseDepth(json: string): void {
  if (json.length <= MAX_DEPTH) return
  let [depth, isText] = [0, false]
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at)
    if (isText) {
      if (code === 92) at += 1
      else if (code === 34) isText = false
    } else if (code === 34) isText = true
    else if (code === 91 || code === 123) {
      depth += 1
      if (depth > MAX_DEPTH) throw refused('', `must not nest deeper than ${MAX_DEPTH} levels`)
    } else if (code === 93 || code === 125) depth -= 1
  }
}

/** @throws Problem unless it's an object */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>
  throw refused('', `must be an object, not ${show(value)}`)
}

/** A member of an object as it is to be stored: with digits that JavaScript would change. `text`: the JSON of the object. */
export function written(text: string, name: string, value: unknown): unknown {
  if (value === undefined || !hasNumbersToKeep(text)) return value
  const member = memberIn(text, name)
  return hasNumbersToKeep(member) ? new JsonText(member) : value
}
