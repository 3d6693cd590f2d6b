import { Lockstep } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const web = lockstepWeb(lockstep, {
  path: '/jobs',
  basicAuth: { username: 'admin', password: process.env.ADMIN_KEY! },
})

export const dynamic = 'force-dynamic'
export const GET = (request: Request) => web.fetch(request)
export const POST = GET
