/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 14

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 8

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = 'ddde6037e4b86445608f2fd57a95cc98a323b0942ae660dc4a5396daf81b2ff6'
