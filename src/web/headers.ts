/** Nothing is loaded from elsewhere, no script or style is inline, and no page may show ours in a frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** What every answer has. */
export const SECURITY: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  // Not `no-referrer`: with that, browsers hide the origin of our own forms from us.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-robots-tag': 'noindex, nofollow',
}

/** Everything is kept out of caches, except what says otherwise, as assets do. */
export function secure({ body, status, statusText, headers }: Response): Response {
  const all = new Headers(headers)
  for (const [name, value] of Object.entries(SECURITY)) all.set(name, value)
  if (!all.has('cache-control')) all.set('cache-control', 'no-store')
  return new Response(body, { status, statusText, headers: all })
}
