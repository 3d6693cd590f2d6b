import { nameOf } from '../options.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, BEGIN_READ_WRITE, isFunction, type Members, rowsOf } from './adapter.ts'

interface TransactionQueryable {
  query(text: string, values: readonly Text[]): Promise<unknown>
}

/** Any object whose `query(text, values)` runs a statement in an open transaction. */
export const recognizeQueryable: Adapter = (tx) => {
  if (!isFunction((tx as Members).query)) return undefined
  return {
    given: nameOf(tx),
    writable: BEGIN_READ_WRITE,
    casts: 'all',
    run: async (text, values) => rowsOf(await (tx as TransactionQueryable).query(text, [...values])),
  }
}
