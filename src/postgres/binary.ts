import pg from 'pg'
import { OptionError } from '../errors.ts'

/** Why results in binary are refused: the driver asks for them at every statement, also at ours. */
export const READS_TEXT = 'pg-lockstep reads results as text'

/**
 * Refuses results in binary before any statement is sent: it would do its work, and the call would fail afterwards.
 * @throws OptionError
 */
export function refuseBinary(pool: pg.Pool | undefined): void {
  const { binary } = (pool?.options ?? {}) as pg.PoolConfig & { readonly binary?: unknown }
  if (binary)
    throw new OptionError(
      `Lockstep: the pool has \`binary: true\`, but ${READS_TEXT}: give it another pool, without \`binary\``,
    )
  if (pg.defaults.binary)
    throw new OptionError(
      `Lockstep: \`pg.defaults.binary\` is set, but ${READS_TEXT}: set \`binary\` where your own clients are created instead`,
    )
}
