import { once } from 'node:events'
import http, { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { nodeListener } from '../../../src/http/from-node.ts'
import { createLmstfy } from '../../../src/http/lmstfy/lmstfy.ts'
import type { LmstfyOptions } from '../../../src/http/lmstfy/options.ts'
import { useWorkers, type WorkerEnvironment } from '../../support/worker-environment.ts'

export interface Answered {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** Undefined if there is no body. */
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
  readonly json: any
}

export interface Sending {
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
  readonly agent?: http.Agent
  readonly signal?: AbortSignal
}

/** Sends a request as it is: paths aren't touched. */
export async function send(
  port: number,
  method: string,
  path: string,
  sending: Sending = {},
): Promise<Answered> {
  const { body, headers, agent = new http.Agent(), signal } = sending
  const request = http.request({ port, host: '127.0.0.1', method, path, headers, agent, signal })
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  const isJson = response.headers['content-type']?.startsWith('application/json') && text !== ''
  return {
    status: response.statusCode!,
    headers: response.headers,
    text,
    json: isJson ? JSON.parse(text) : undefined,
  }
}

/** A gateway with a token, and requests to it. */
export interface Gateway {
  readonly port: number
  readonly adminPort: number
  readonly token: string
  /** Of the namespace `ns`, with its token. */
  api(method: string, path: string, sending?: Sending): Promise<Answered>
  admin(method: string, path: string, sending?: Sending): Promise<Answered>
  /** Publishes, and resolves to the id. */
  publish(queue: string, body: string | Buffer, query?: string): Promise<string>
  /** Consumes at once; null if there is nothing. */
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
  consume(queue: string, query?: string): Promise<any>
  stop(): Promise<void>
}

export type GatewayOptions = Partial<LmstfyOptions> & { readonly server?: http.ServerOptions }

export async function openGateway(env: WorkerEnvironment, options: GatewayOptions = {}): Promise<Gateway> {
  const { server: settings = {}, ...others } = options
  const { api, admin, stop } = createLmstfy({ pools: { default: env.lockstep }, ...others })
  const servers = [api, admin].map((answer) => createServer(settings, nodeListener(answer)))
  for (const server of servers) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  }
  const [port, adminPort] = servers.map((server) => (server.address() as AddressInfo).port) as [
    number,
    number,
  ]
  const created = await send(adminPort, 'POST', '/token/ns?description=tests')
  const token: string = created.json?.token
  const headers = { 'x-token': token }
  const request = (method: string, path: string, sending: Sending = {}) =>
    send(port, method, `/api/ns/${path}`, { ...sending, headers: { ...headers, ...sending.headers } })
  return {
    port,
    adminPort,
    token,
    api: request,
    admin: (method, path, sending) => send(adminPort, method, path, sending),
    publish: async (queue, body, query = '') =>
      (await request('PUT', `${queue}${query}`, { body })).json.job_id,
    consume: async (queue, query = '') => {
      const { status, json } = await request('GET', `${queue}${query}`)
      return status === 200 ? json : null
    },
    stop: async () => {
      await stop()
      for (const server of servers) {
        server.closeAllConnections()
        server.close()
      }
    },
  }
}

export interface GatewayEnvironment {
  readonly env: WorkerEnvironment
  /** One for each test, stopped after it. */
  gateway(options?: GatewayOptions): Promise<Gateway>
}

export function useGateway(): GatewayEnvironment {
  const env = useWorkers()
  return {
    env,
    gateway: async (options) => {
      const opened = await openGateway(env, options)
      env.later(() => opened.stop())
      return opened
    },
  }
}

export function decoded(data: string): string {
  return Buffer.from(data, 'base64').toString()
}
