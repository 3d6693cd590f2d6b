/**
 * The number of the definitions in `sql/` and `migrations/`, raised by one with every change. The database stores it, so
 * that no release replaces the definitions of a later one. `npm run serial` writes this number and `HASH`.
 */
export const SERIAL = 109

/**
 * The lowest serial of a release whose processes can still work with these definitions. The `migrate` of an older release
 * refuses, and its workers stop. Raised by hand; docs/upgrading.md says when.
 */
export const OLDEST_SERVED = 21

/** The hash of the definitions with this `SERIAL`. A test fails if they differ. */
export const HASH = '2530123bcf471bb516a39bf3aad35f572e6f1cee28798c34a6a4718f42fe6897'
