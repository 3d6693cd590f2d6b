import { once } from 'node:events'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'

// `npm run postgres`: a Postgres to try things on, until Ctrl-C.
const server = await startEmbeddedPostgres()
console.log(`DATABASE_URL=${server.connectionString}`)

const alive = setInterval(() => {}, 2 ** 30)
await Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal)))
clearInterval(alive)
await server.stop()
