import { afterAll, beforeAll } from 'vitest'
import { Command } from '../cli/command.ts'
import { type Answered, type Sending, send } from '../http/lmstfy/wire.ts'
import { type RoleEnvironment, SCHEMA } from './role-environment.ts'

/** `lockstep serve` in a process of its own. */
export interface ServedGateway {
  /** To our own API. `route`: the path as the API describes it. */
  v1(method: 'get' | 'post', route: string, call?: V1Call): Promise<Answered>
  /** To lmstfy's API. `route`: as its routes name it, without the namespace and the queue. */
  lmstfy(method: string, route: string, call?: LmstfyCall): Promise<Answered>
  /** To its administration. `route`: as its routes name it. */
  admin(method: string, route: string, call?: AdminCall): Promise<Answered>
  /** The routes that were called: of each API, with their methods. */
  readonly called: Readonly<Record<'v1' | 'lmstfy' | 'admin', ReadonlySet<string>>>
  readonly port: number
  readonly adminPort: number
  /** Ends it, and resolves to its log. */
  stop(): Promise<string>
}

interface V1Call {
  readonly queue?: string
  readonly id?: string
  readonly query?: string
  readonly body?: unknown
  readonly headers?: Sending['headers']
}

interface LmstfyCall {
  readonly queue?: string
  readonly id?: string
  readonly query?: string
  readonly body?: string
  readonly token?: string
}

interface AdminCall {
  readonly namespace?: string
  readonly token?: string
  readonly query?: string
  readonly body?: string
}

const TOKEN = 'a-token-of-twenty-characters'

/** Logs in as `login`, and as nobody else. Tokens of `/v1` are made by the schema's owner, those of lmstfy's API by the gateway. */
export function useServed(env: RoleEnvironment, login: string): { gateway: ServedGateway } {
  const served = {} as { gateway: ServedGateway }
  let command: Command
  beforeAll(async () => {
    const scopes = ['produce', 'consume', 'admin'] as const
    const { token } = await env.lockstep('owner').createToken({ name: 'everything', scopes })
    await env.tidy()
    const args = ['serve', '--json', '--port', '0', '--admin-port', '0', '--schema', SCHEMA]
    command = new Command(args, { env: { DATABASE_URL: env.logins.url(login) } })
    const { url, adminUrl } = await command.line((line) => 'url' in line)
    served.gateway = await gatewayOf(command, url as string, adminUrl as string, token)
  })
  afterAll(async () => {
    command?.child.kill('SIGKILL')
    await command?.ended
  })
  return served
}

async function gatewayOf(
  command: Command,
  url: string,
  adminUrl: string,
  token: string,
): Promise<ServedGateway> {
  const [port, adminPort] = [Number(new URL(url).port), Number(new URL(adminUrl).port)]
  const called = { v1: new Set<string>(), lmstfy: new Set<string>(), admin: new Set<string>() }
  const admin: ServedGateway['admin'] = (
    method,
    route,
    { namespace = 'ns', token = TOKEN, query = '', body } = {},
  ) => {
    called.admin.add(`${method} ${route}`)
    const path = route.replace(':namespace', namespace).replace(':token', token).replace('/:name', '/nothing')
    return send(adminPort, method, `${path}${query}`, { ...(body !== undefined && { body }) })
  }
  await admin('POST', '/token/:namespace', { query: `?description=x&token=${TOKEN}` })
  return {
    ...{ port, adminPort, called, admin },
    v1: (method, route, { queue = '', id = '', query = '', body = {}, headers = {} } = {}) => {
      called.v1.add(`${method} ${route}`)
      const path = route.replace('{queue}', encodeURIComponent(queue)).replace('{id}', id)
      const authorization = `Bearer ${token}`
      return send(port, method.toUpperCase(), `/v1${path}${query}`, {
        headers: {
          authorization,
          ...headers,
          ...(method === 'post' && { 'content-type': 'application/json' }),
        },
        ...(method === 'post' && { body: JSON.stringify(body) }),
      })
    },
    lmstfy: (method, route, { queue = 'q', id = '', query = '', body, token = TOKEN } = {}) => {
      called.lmstfy.add(`${method} /api/:namespace/:queue${route}`)
      const path = `/api/ns/${queue}${route.replace(':job_id', id)}${query}`
      return send(port, method, path, { headers: { 'x-token': token }, ...(body !== undefined && { body }) })
    },
    stop: async () => {
      command.child.kill('SIGTERM')
      return (await command.ended).stderr
    },
  }
}
