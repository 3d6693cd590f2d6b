import type pg from 'pg'
import { toSpareConnectionError } from '../postgres/failure.ts'

/** ms */
const PATIENCE = 1_000

/**
 * Runs `ask` on a pool connection while a caller's transaction is open. Resolves to undefined if none is free: all of them
 * may be in transactions like this one, waiting here. A pooler behind the pool may have none free either, which shows only
 * by its silence; `ask` may then still be answered later.
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
  } catch (error) {
    throw toSpareConnectionError(error)
  } finally {
    clearTimeout(timer)
    asked.catch(() => {})
  }
}

/** Whether all connections are in use and the pool may open no more. */
function isExhausted(pool: pg.Pool): boolean {
  return pool.idleCount === 0 && pool.totalCount >= (pool.options.max ?? Number.POSITIVE_INFINITY)
}
