/** Browsers and proxies take these, also percent-encoded, for a step in the path, and remove them. */
const STEP = /^~*\.{1,2}$/
const ESCAPED = /^~+\.{1,2}$/

/** A name of any kind as a segment of an address: `.` and `..` get a tilde before them, and so do `~.` and the like. */
export function segmentOf(name: string): string {
  return encodeURIComponent(STEP.test(name) ? `~${name}` : name)
}

/** What a segment names, once it is percent-decoded. */
export function nameIn(segment: string): string {
  return ESCAPED.test(segment) ? segment.slice(1) : segment
}
