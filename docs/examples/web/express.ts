import type { IncomingMessage } from 'node:http'
import express, { type Request } from 'express'
import { Lockstep } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'

interface User {
  readonly name: string
  readonly isAdmin: boolean
}

/** Yours: from a session, say. */
function userOf(request: Request): User | undefined {
  return request.get('authorization') === `Bearer ${process.env.ADMIN_KEY}`
    ? { name: 'anna', isAdmin: true }
    : undefined
}

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const web = lockstepWeb(lockstep, {
  authorize(_request, action, incoming?: IncomingMessage & { user?: User }) {
    const user = incoming?.user
    return user !== undefined && (action === 'view' || user.isAdmin) && { actor: user.name }
  },
})

const app = express()
app.use(express.json())
app.use((request, _response, next) => {
  Object.assign(request, { user: userOf(request) })
  next()
})
app.use('/jobs', web.node)
app.listen(Number(process.env.PORT))
