import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { pipeline } from 'node:stream'
import { createWebSocketStream, WebSocketServer } from 'ws'

export interface WebSocketProxy {
  readonly port: number
  /** How many connections it has passed on. */
  readonly passed: () => number
  close(): void
}

/** Passes WebSockets on to TCP, as the proxy in front of Neon's servers does. `address` in the query says where to. */
export async function startWebSocketProxy(): Promise<WebSocketProxy> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  let passed = 0
  server.on('connection', (socket, { url }) => {
    const address = new URL(url!, 'ws://proxy').searchParams.get('address')!
    const [host, port] = address.split(':')
    passed += 1
    const stream = createWebSocketStream(socket)
    pipeline(stream, connect(Number(port), host), stream, () => socket.terminate())
  })
  return {
    port: (server.address() as AddressInfo).port,
    passed: () => passed,
    close: () => {
      for (const client of server.clients) client.terminate()
      server.close()
    },
  }
}
