/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 65

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 21

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = 'd8959df64bdf2f26e37045c41fcd80488bd04766f105f89efb9e228bd83e3e6c'
