// Serves an example that is no server itself: by the adapter that Hono has for Node, or as Next.js calls its routes.
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { app } from '../../../docs/examples/web/hono.ts'
import { GET, POST } from '../../../docs/examples/web/next.ts'

const isNext = process.argv[2] === 'next'

createServer(async (incoming, outgoing) => {
  const method = incoming.method!
  const body = method === 'POST' ? Readable.toWeb(incoming) : undefined
  const headers = incoming.headers as Record<string, string>
  const init = { method, headers, body, duplex: 'half' } as RequestInit
  const request = new Request(`http://${headers.host}${incoming.url}`, init)
  const response = await (isNext ? (method === 'POST' ? POST : GET)(request) : app.fetch(request))
  outgoing.writeHead(response.status, [...response.headers].flat())
  for await (const chunk of response.body ?? []) outgoing.write(chunk)
  outgoing.end()
}).listen(Number(process.env.PORT))
