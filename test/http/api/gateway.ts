import { afterEach } from 'vitest'
import { type ApiOptions, type LockstepApi, lockstepApi } from '../../../src/http/index.ts'
import type { Lockstep } from '../../../src/index.ts'
import { useWorkers, type WorkerEnvironment } from '../../support/worker-environment.ts'
import { type Answer, type Asking, type Site, serve } from '../../web/site.ts'
import { conforms } from './described.ts'

export interface Gateway {
  readonly api: LockstepApi
  readonly site: Site
  get(path: string, headers?: Asking['headers']): Promise<Answer>
  post(path: string, body?: unknown, headers?: Asking['headers']): Promise<Answer>
}

export interface GatewayEnvironment {
  readonly env: WorkerEnvironment
  /** The API over HTTP, until the test ends. Everybody may do everything unless the options say otherwise. */
  open(options?: ApiOptions, lockstep?: Lockstep): Promise<Gateway>
  /** A name that no other test uses. */
  name(): string
}

let names = 0

/** A database for the gateways of one file. */
export function useGateways(): GatewayEnvironment {
  const env = useWorkers()
  const opened: LockstepApi[] = []
  afterEach(async () => {
    for (const api of opened.splice(0)) await api.stop()
  })
  return {
    env,
    name: () => `queue ${++names}`,
    async open(options = { access: 'open' }, lockstep = env.lockstep) {
      const api = lockstepApi(lockstep, options)
      opened.push(api)
      const site = await serve(api.node)
      const ask = async (path: string, asking: Asking) => {
        const answer = await site.ask(`/v1${path}`, asking)
        conforms(asking.body === undefined ? 'get' : 'post', path, answer)
        return answer
      }
      return {
        api,
        site,
        get: (path, headers) => ask(path, { headers }),
        post: (path, body = {}, headers) => ask(path, { body, headers }),
      }
    },
  }
}

/** A path below a queue. */
export function below(queue: string, path: string): string {
  return `/queues/${encodeURIComponent(queue)}${path}`
}
