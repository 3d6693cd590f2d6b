/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 19

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 19

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = 'c23fd4a9339f9f85ad5d2d3b36f98a472869571fac469c0b5127fe0b7549667c'
