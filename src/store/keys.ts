import type { Database, Queryable } from '../postgres/database.ts'

/** What a caller names, so that its push is stored once however often it is sent. */
export interface IdempotencyKey {
  /** Whose key it is: others may have one of the same name. */
  readonly holder: string
  readonly key: string
  /** Of all that the push is made of. */
  readonly digest: Buffer
}

/** What was noted of a push before. */
export interface NotedPush {
  readonly digest: Buffer
  readonly stored: number
}

/**
 * Notes in `tx`, before its jobs are pushed, that it stores so many. Resolves to what was noted of the key before; undefined if
 * the key is new. Waits for a push with the key that is under way as long as the lock_timeout of `tx` says, then rejects with the
 * server's 55P03.
 */
export async function noteKey(
  database: Database,
  { holder, key, digest }: IdempotencyKey,
  stored: number,
  tx: Queryable,
): Promise<NotedPush | undefined> {
  const [noted] = await database.call<NotedPush>('note_key', [holder, key, digest, stored], tx)
  return noted
}

/** Corrects, in the same `tx`, how many were stored. */
export async function recountKey(
  database: Database,
  { holder, key }: IdempotencyKey,
  stored: number,
  tx: Queryable,
): Promise<void> {
  await database.run('recount_key', [holder, key, stored], tx)
}

/** Deletes a bounded part of the keys that are older than a day, and returns how many. */
export async function trimKeys(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_keys: number }>('trim_keys', [])
  return row!.trim_keys
}
