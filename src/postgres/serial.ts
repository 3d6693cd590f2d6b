/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 118

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 21

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = 'fc851318d2114f22298d5f5ba354b67c9f366e87c2b70652ab96e6326d31499a'
