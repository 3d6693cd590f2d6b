/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 6

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 6

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = 'cac907c18c0f19038833f4a49c17339e9d6f917c2bb0db32c8c41c4aed9b5a8e'
