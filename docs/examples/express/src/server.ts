import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { Lockstep } from 'pg-lockstep'
import { createApp } from './app.ts'
import { settings } from './settings.ts'
import { stop } from './stop.ts'

const { databaseUrl, host, port } = settings()

// One pool and one Lockstep per process. This one only pushes: `npm run worker` performs.
const pool = new pg.Pool({ connectionString: databaseUrl })
// Without a listener, a connection that breaks while it is idle would end the process.
pool.on('error', (error) => console.warn('an idle connection broke:', error.message))
const lockstep = new Lockstep({ pool })

const server = createApp({ pool, lockstep }).listen(port, host, (error) => {
  if (error) throw error
  console.log(`listening at http://${host}:${(server.address() as AddressInfo).port}`)
})

// A second signal ends the process at once.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    stop({ server, lockstep, pool }).catch((error) => {
      console.error('the process did not stop well:', error)
      process.exit(1)
    })
  })
}
