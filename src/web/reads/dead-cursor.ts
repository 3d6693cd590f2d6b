import { OptionError } from '../../errors.ts'

/**
 * A page of dead payloads begins where another ended, at an id and a digest. The digest must not leave: a short payload can
 * be guessed from it. So the cursor that visitors get has the payload's key in its place.
 */
export function hidden(next: string, key: string): string {
  return written([...partsOf(next).slice(0, -1), key])
}

/** Below and above every digest. */
const [FIRST, LAST] = ['', 'ff'.repeat(33)]

/**
 * The cursor that the database wants. Once the payload is gone, its id begins anew, so that none is left out.
 * @throws OptionError
 */
export async function revealed(
  after: string,
  direction: 'asc' | 'desc',
  digestOf: (id: string, key: string) => Promise<string | undefined>,
): Promise<string> {
  const parts = partsOf(after)
  const [id, key] = parts.slice(-2)
  if (parts.length < 3 || id!.includes('\u0000') || !/^\d{1,10}\.\d{1,10}\.\d{1,5}$/.test(key!))
    throw new OptionError('after must be the `next` of an earlier page of dead payloads')
  const digest = await digestOf(id!, key!)
  return written([...parts.slice(0, -1), digest ?? (direction === 'asc' ? FIRST : LAST)])
}

function written(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

function partsOf(cursor: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : []
  } catch {
    return []
  }
}
