import type pg from 'pg'

/** ms */
const PATIENCE = 1_000

/**
 * Asks something over a connection of the pool's, while the transaction of a caller's is open. Resolves to undefined where none
 * is to be had: all of them may be in transactions like that one, waiting here; those of the pool, or of a pooler behind it,
 * which shows only by its silence. What is asked all the same may still be answered later.
 */
export async function overSpareConnection<T>(pool: pg.Pool, ask: () => Promise<T>): Promise<T | undefined> {
  if (isExhausted(pool)) return undefined
  const asked = ask()
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), PATIENCE)
  })
  try {
    return await Promise.race([asked, late])
  } finally {
    clearTimeout(timer)
    asked.catch(() => {})
  }
}

/** Whether all connections are lent, and there may be no more. */
function isExhausted(pool: pg.Pool): boolean {
  return pool.idleCount === 0 && pool.totalCount >= (pool.options.max ?? Number.POSITIVE_INFINITY)
}
