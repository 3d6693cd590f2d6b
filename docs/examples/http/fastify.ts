import Fastify from 'fastify'
import { Lockstep } from 'pg-lockstep'
import { lockstepApi } from 'pg-lockstep/http'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const api = lockstepApi(lockstep, { access: 'tokens' })

const app = Fastify()
app.register(
  async (jobs) => {
    // The API reads bodies itself.
    jobs.removeAllContentTypeParsers()
    jobs.addContentTypeParser('*', (_request, _body, done) => done(null))
    jobs.all('/*', (request, reply) => {
      reply.hijack()
      api.node(request.raw, reply.raw)
    })
  },
  { prefix: '/v1' },
)
app.addHook('onClose', () => api.stop())
await app.listen({ port: Number(process.env.PORT) })
