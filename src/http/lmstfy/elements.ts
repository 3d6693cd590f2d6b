const [QUOTE, BACKSLASH, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\,[]{}')
const SPACES = new Set(Buffer.from(' \t\r\n'))

/** The elements of a JSON array, each as the bytes that it was sent as; undefined if it is no array. `null` is an empty one. */
export function elementsOf(body: Buffer): Buffer[] | undefined {
  const value = parsed(body)
  if (value === null) return []
  if (!Array.isArray(value)) return undefined
  return value.length === 0 ? [] : split(body)
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** The text is known to be an array with elements. */
function split(body: Buffer): Buffer[] {
  const elements: Buffer[] = []
  let depth = 0
  let isText = false
  let from = 0
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at]
    if (isText) {
      if (byte === BACKSLASH) at += 1
      else if (byte === QUOTE) isText = false
      continue
    }
    if (byte === QUOTE) isText = true
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1
      if (depth === 1) from = at + 1
    } else if (byte === COMMA && depth === 1) {
      elements.push(trimmed(body, from, at))
      from = at + 1
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth -= 1
      if (depth === 0) elements.push(trimmed(body, from, at))
    }
  }
  return elements
}

function trimmed(body: Buffer, from: number, to: number): Buffer {
  while (SPACES.has(body[from]!)) from += 1
  while (SPACES.has(body[to - 1]!)) to -= 1
  return body.subarray(from, to)
}
