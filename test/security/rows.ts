import { fileURLToPath } from 'node:url'

/** A file for `lockstep enqueue`. */
export const ROWS = fileURLToPath(new URL('./rows.ndjson', import.meta.url))
