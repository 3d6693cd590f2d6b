import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

type Part = string | Buffer

/** Also where the other end resets it after its answer, since it was sent more: `once` would reject then. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

/** All that comes back for these bytes, until the other end closes. */
export async function raw(port: number, ...parts: readonly Part[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  let answer = ''
  socket.on('data', (data) => {
    answer += data
  })
  await once(socket, 'connect')
  for (const part of parts) socket.write(part)
  await closed(socket)
  return answer
}

/** What comes back to a client that reads nothing before it has sent everything, as simple ones do. */
export async function sentFirst(port: number, head: string, body: Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1').pause()
  const sent = new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.write(head)
    socket.write(body, () => resolve())
  })
  await sent
  let answer = ''
  for await (const data of socket) answer += data
  return answer
}

/** The same for a client that sends a byte of `text` every so many ms after `head`, and goes on for ever. */
export async function dribbled(port: number, text: string, every: number, head = ''): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  let answer = ''
  socket.on('data', (data) => {
    answer += data
  })
  await once(socket, 'connect')
  socket.write(head)
  let at = 0
  const timer = setInterval(() => socket.write(text[at++ % text.length]!), every)
  await closed(socket)
  clearInterval(timer)
  return answer
}

/** A part of a body whose length nobody has announced. An empty one ends it. */
export function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`
}
