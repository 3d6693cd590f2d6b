/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 100

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 21

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = '9411f26041131c1a74e15f63200dee0841e6fa4601d3ad0c5c23e84d49428cd5'
