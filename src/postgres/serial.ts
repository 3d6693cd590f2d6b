/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 13

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 8

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = 'edd80e28d89bb4b98b6b261e0596142b6d9edf851710fd0de4fe53deda9b6c29'
