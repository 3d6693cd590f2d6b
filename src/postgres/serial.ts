/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 83

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 21

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = 'd04940fd5f06feba2cf43adb4a58d272caf57bd2e9dc455fe7c3ecb423bee0f3'
