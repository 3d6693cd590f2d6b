import Fastify from 'fastify'
import pg from 'pg'
import { Lockstep } from 'pg-lockstep'
import { orderChanges } from './queues.ts'
import { routes } from './routes.ts'
import { settings } from './settings.ts'
import { stop } from './stop.ts'

const { databaseUrl, host, port, worker: place } = settings()
const app = Fastify({ logger: true })

// One pool and one Lockstep per process: requests push with its pool, and the worker opens connections of its own.
const pool = new pg.Pool({ connectionString: databaseUrl })
// Without a listener, a connection that breaks while it is idle would end the process.
pool.on('error', (error) => app.log.warn(error, 'an idle connection broke'))
const lockstep = new Lockstep({ pool, logger: app.log })
await app.register(routes, { pool, lockstep })

const worker = place === 'embedded' ? lockstep.createWorker({ queues: [orderChanges] }) : undefined
await worker?.start()
await app.listen({ host, port })

// A second signal ends the process at once.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    stop({ app, worker, lockstep, pool }).catch((error) => {
      app.log.error(error, 'the process did not stop well')
      process.exit(1)
    })
  })
}
