import type { Database } from '../postgres/database.ts'

/** What each job has from now on, in its headers. */
export interface Respawning {
  readonly tries: number
  /** When it expires, in ms since 1970; 0: never. */
  readonly expires: number
}

/** Moves the payloads that died first back to their jobs, `most` at once, in the order of their deaths. Returns how many. */
export async function respawn(
  database: Database,
  queue: string,
  most: number,
  headers: Respawning,
): Promise<number> {
  const expiresIn = headers.expires > 0 ? new Date(headers.expires) : null
  const [row] = await database.call<{ respawn: number }>('respawn', [queue, most, headers, expiresIn])
  return row!.respawn
}
