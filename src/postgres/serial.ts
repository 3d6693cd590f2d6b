/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 20

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 19

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = '6eaee4a944b5fef2e0f67e28648c316c4828ac0c86b8a4a256e8a215b86bfeb8'
