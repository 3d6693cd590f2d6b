import type { IncomingMessage } from 'node:http'
import express, { type Request } from 'express'
import { Lockstep } from 'pg-lockstep'
import { lockstepApi } from 'pg-lockstep/http'

interface Service {
  readonly name: string
  readonly queues: readonly string[]
}

/** Yours: from a client certificate, say. */
function serviceOf(request: Request): Service | undefined {
  return request.get('authorization') === `Bearer ${process.env.SHOP_KEY}`
    ? { name: 'shop', queues: ['orders'] }
    : undefined
}

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const api = lockstepApi(lockstep, {
  authorize(_request, { scope, queue }, incoming?: IncomingMessage & { service?: Service }) {
    const service = incoming?.service
    if (!service || scope === 'admin') return false
    return (queue === undefined || service.queues.includes(queue)) && { actor: service.name }
  },
})

const app = express()
app.use((request, _response, next) => {
  Object.assign(request, { service: serviceOf(request) })
  next()
})
app.use('/jobs', api.node)
app.listen(Number(process.env.PORT))
