/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 6

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 1

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = '62b23dd016a04faf77706b12366c0dd0be267038247ba3516d9d33cf8f085ee1'
