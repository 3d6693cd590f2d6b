/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 7

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 7

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = '82a64316b804648c7d29c1b820574464161a98aa318fdcc14a1e76bb39e440ad'
