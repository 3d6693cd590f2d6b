import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface Pooler {
  /** The same database through the pooler. */
  connectionString: string
  close(): void
}

/**
 * Looks like a pooler to a client: it sends its own backend key (BackendKeyData), so that the process id the client is
 * told is not that of the server's session.
 */
export async function startPooler(connectionString: string): Promise<Pooler> {
  const target = new URL(connectionString)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(target.port || 5432), target.hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream)
    relayWithOtherKey(upstream, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(connectionString)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    connectionString: url.href,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

const HEAD = 5
const PID = 5

/** A message is a letter, a length that counts itself, and content. */
function relayWithOtherKey(upstream: Socket, client: Socket): void {
  let waiting = Buffer.alloc(0)
  let done = false
  upstream.on('data', (data) => {
    if (done) return client.write(data)
    waiting = Buffer.concat([waiting, data])
    while (!done && waiting.length >= HEAD && waiting.length > waiting.readInt32BE(1)) {
      const message = waiting.subarray(0, waiting.readInt32BE(1) + 1)
      waiting = waiting.subarray(message.length)
      done = message.toString('latin1', 0, 1) === 'K'
      if (done) message.writeInt32BE(message.readInt32BE(PID) + 100_000, PID)
      client.write(message)
    }
    if (done) client.write(waiting)
    return
  })
}
