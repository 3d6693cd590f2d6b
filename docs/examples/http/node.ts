import { createServer } from 'node:http'
import { Lockstep } from 'pg-lockstep'
import { lockstepApi } from 'pg-lockstep/http'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const api = lockstepApi(lockstep, { access: 'tokens' })

const server = createServer((request, response) => {
  if (request.url?.startsWith('/v1/')) api.node(request, response)
  else response.writeHead(404).end()
}).listen(Number(process.env.PORT))

process.once('SIGTERM', async () => {
  server.close()
  await api.stop()
  await lockstep.close()
})
