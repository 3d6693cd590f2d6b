import { Lockstep } from 'pg-lockstep'
import { lockstepApi } from 'pg-lockstep/http'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const api = lockstepApi(lockstep, { access: 'tokens', path: '/api/v1' })

export const dynamic = 'force-dynamic'
export const GET = (request: Request) => api.fetch(request)
export const POST = GET
