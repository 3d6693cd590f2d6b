/**
 * The number of what `sql/` and `migrations/` define, one higher with every change of them. It stands in the database,
 * so that no release puts its definitions over those of a later one. Written by `npm run serial`, with `HASH`.
 */
export const SERIAL = 20

/**
 * The lowest serial of a release whose processes still work with these definitions: `migrate` of an older one refuses,
 * and its workers stop. Raised by hand; docs/upgrading.md tells when.
 */
export const OLDEST_SERVED = 19

/** Of the definitions that `SERIAL` numbers: a test fails where they are others. */
export const HASH = '6eaee4a944b5fef2e0f67e28648c316c4828ac0c86b8a4a256e8a215b86bfeb8'
