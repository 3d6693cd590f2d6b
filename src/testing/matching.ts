/** A matcher of a test library, such as `expect.any(Number)`. */
interface Matcher {
  asymmetricMatch(actual: unknown): boolean
}

/**
 * Whether `actual` has everything that `expected` names. Lists must be as long, members that `expected` doesn't name are
 * ignored, dates match by their time, and matchers of Jest and Vitest decide by themselves.
 */
export function matches(actual: unknown, expected: unknown): boolean {
  if (isMatcher(expected)) return expected.asymmetricMatch(actual)
  if (expected instanceof Date) return actual instanceof Date && actual.getTime() === expected.getTime()
  // −0 is stored as 0.
  if (!isObject(expected) || !isObject(actual)) return actual === expected || Object.is(actual, expected)
  if (Array.isArray(expected) !== Array.isArray(actual)) return false
  if (Array.isArray(expected) && expected.length !== (actual as unknown as unknown[]).length) return false
  return Object.entries(expected).every(
    ([key, value]) => (Object.hasOwn(actual, key) || value === undefined) && matches(actual[key], value),
  )
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

export function isMatcher(value: unknown): value is Matcher {
  return isObject(value) && typeof value.asymmetricMatch === 'function'
}
