import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Lockstep, LockstepError } from '../../index.ts'
import { SECURITY } from '../../web/headers.ts'
import { type LockstepWeb, lockstepWeb } from '../../web/index.ts'
import { actorOf } from '../actor.ts'
import { connected } from '../connection.ts'
import { onInterruption } from '../interruption.ts'
import { stopWithoutParent } from '../orphan.ts'
import { note, write, writeJson } from '../output.ts'
import { servingLogger } from '../stderr-logger.ts'
import type { WebFlags } from '../web.ts'
import { type Entrance, entranceOf, isLoopback } from './access.ts'
import { namesThisMachine } from './hosts.ts'
import { Login, type Reply } from './login.ts'

/** ms that requests have to end. */
const GRACE = 5_000
const PLAIN = { 'content-type': 'text/plain; charset=utf-8' }
const ELSEWHERE: Reply = { status: 421, text: 'This page is for this machine, under its own name.' }

/** What people did on the page is told, too. */

/** Serves until a signal comes. */
export async function serveWeb(flags: WebFlags): Promise<void> {
  const entrance = await entranceOf(flags)
  await connected(flags, async ({ database: { pool, schema } }) => {
    const lockstep = new Lockstep({ pool, schema, logger: servingLogger })
    // What is wrong with the database is told at once.
    await lockstep.stats()
    const interrupted = new Promise<void>((resolve) => void onInterruption(() => resolve()))
    stopWithoutParent()
    const page = await openPage(lockstep, flags, entrance)
    announce(page.url, flags, entrance)
    await interrupted
    await page.close()
  })
}

export type PageFlags = Pick<WebFlags, 'host' | 'port' | 'path' | 'readOnly' | 'origin'>

export interface OpenPage {
  /** What to open: the link that works once, if that is the entrance. */
  readonly url: string
  close(): Promise<void>
}

/** @throws LockstepError `LOCKSTEP_LISTEN` */
export async function openPage(lockstep: Lockstep, flags: PageFlags, entrance: Entrance): Promise<OpenPage> {
  const login = new Login(flags.path.replace(/\/$/, ''))
  const web = webOf(lockstep, flags, entrance, login)
  const server = await listen(createServer(listenerOf(web, flags, login)), flags)
  const origin = addressOf(server, flags)
  const url = entrance.kind === 'link' ? login.linkAt(origin) : `${origin}${flags.path}`
  return { url, close: () => stop(server) }
}

function webOf(
  lockstep: Lockstep,
  { readOnly, path, origin }: PageFlags,
  entrance: Entrance,
  login: Login,
): LockstepWeb {
  const options = { readOnly, path, origins: origin }
  if (entrance.kind === 'users') return lockstepWeb(lockstep, { ...options, basicAuth: entrance.users })
  if (entrance.kind === 'open') return lockstepWeb(lockstep, { ...options, access: 'open' })
  return lockstepWeb(lockstep, {
    ...options,
    authorize: (request) => login.holds(request.headers.get('cookie')) && { actor: actorOf({}) },
  })
}

/** What the page does not know of comes before it: the name of the host, and the link. */
function listenerOf(web: LockstepWeb, { host, origin }: PageFlags, login: Login): RequestListener {
  return (incoming, outgoing) => {
    const reply =
      isLoopback(host) && !namesThisMachine(incoming.headers.host, origin)
        ? ELSEWHERE
        : login.answer(incoming)
    if (!reply) return void web.node(incoming, outgoing)
    const { status, headers, text = '' } = reply
    outgoing.writeHead(status, { ...SECURITY, 'cache-control': 'no-store', ...PLAIN, ...headers })
    outgoing.end(`${text}\n`)
  }
}

async function listen(server: Server, { host, port }: PageFlags): Promise<Server> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
    return server
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'EADDRINUSE') throw new LockstepError('LOCKSTEP_LISTEN', `can't listen: ${message}`)
    throw new LockstepError(
      'LOCKSTEP_LISTEN',
      `port ${port} of ${host} is in use: choose another one with --port, or any free one with --port 0`,
    )
  }
}

function addressOf(server: Server, { host }: PageFlags): string {
  const { port } = server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

function announce(url: string, { json, readOnly }: WebFlags, { kind }: Entrance): void {
  if (json) writeJson({ url, access: kind, readOnly: readOnly ?? false })
  else write(kind === 'link' ? `open ${url}\nThe link works once. Ctrl-C stops the page.` : `open ${url}`)
  if (kind === 'open' && !readOnly) note('whoever reaches this address may change jobs and queues')
}

/** Requests may end; then what is left is cut off. */
async function stop(server: Server): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), GRACE)
  await closed
  clearTimeout(cut)
}
