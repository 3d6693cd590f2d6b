import type { Call } from '../call.ts'
import { BadParameter } from './parameters.ts'

const PREFIX = 'job-attr-'
const MOST = 16
const MOST_NAME = 32
/** Bytes. */
const MOST_VALUE = 128

export type Attributes = Readonly<Record<string, string>>

/** The attributes of a job, from the headers `Job-Attr-*`; undefined if the client doesn't ask for them. */
export function attributesOf(call: Call): Attributes | undefined {
  if (call.header('enable-job-version')?.toUpperCase() !== 'YES') return undefined
  const attributes = new Map<string, string>()
  for (const [header, value] of call.headers())
    if (header.startsWith(PREFIX) && header.length > PREFIX.length)
      attributes.set(header.slice(PREFIX.length, PREFIX.length + MOST_NAME), textOf(value))
  if (attributes.size > MOST) throw new BadParameter(`too many attributes, cannot exceed ${MOST}`)
  return Object.fromEntries(attributes)
}

/** Each character of a header is a byte, and these are UTF-8, as a rule. The decoder keeps a character to itself that was cut apart. */
function textOf(value: string): string {
  const bytes = Buffer.from(value, 'latin1').subarray(0, MOST_VALUE)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: true })
  } catch {
    return bytes.toString('latin1')
  }
}
