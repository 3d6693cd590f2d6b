import { Hono } from 'hono'
import { Lockstep } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const web = lockstepWeb(lockstep, {
  path: '/jobs',
  basicAuth: { username: 'admin', password: process.env.ADMIN_KEY! },
})

const app = new Hono()
app.mount('/jobs', web.fetch)

export { app }
