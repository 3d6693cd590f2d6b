import Fastify from 'fastify'
import { Lockstep } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const web = lockstepWeb(lockstep, {
  path: '/jobs',
  basicAuth: { username: 'admin', password: process.env.ADMIN_KEY! },
})

const app = Fastify()
app.register(
  async (jobs) => {
    // The page reads bodies itself.
    jobs.removeAllContentTypeParsers()
    jobs.addContentTypeParser('*', (_request, _body, done) => done(null))
    for (const path of ['/', '/*']) {
      jobs.all(path, (request, reply) => {
        reply.hijack()
        web.node(request.raw, reply.raw)
      })
    }
  },
  { prefix: '/jobs' },
)
await app.listen({ port: Number(process.env.PORT) })
