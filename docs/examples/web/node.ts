import { createServer } from 'node:http'
import { Lockstep } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const web = lockstepWeb(lockstep, {
  path: '/jobs',
  basicAuth: [
    { username: 'admin', password: process.env.ADMIN_KEY! },
    { username: 'guest', password: process.env.GUEST_KEY!, role: 'view' },
  ],
  redact: (payload, { queue }) => (queue === 'mails' ? '(a mail)' : payload),
})

createServer((request, response) => {
  if (request.url?.startsWith('/jobs')) web.node(request, response)
  else response.writeHead(404).end()
}).listen(Number(process.env.PORT))
