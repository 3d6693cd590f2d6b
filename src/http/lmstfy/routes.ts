import type { Side } from '../../store/lmstfy-access.ts'
import type { Reply } from '../call.ts'
import { acknowledge, consume } from './consume.ts'
import { deleteDead, destroy, respawnDead } from './dead.ts'
import { deadHead, deadSize, peek, peekJob, size } from './look.ts'
import { problemOfLists, problemOfNames } from './names.ts'
import { publish, publishBulk, republish } from './publish.ts'
import type { Request } from './request.ts'

export interface Route {
  readonly method: string
  /** As metrics name it: what comes after the queue is the part behind `:queue`. */
  readonly path: string
  /** What counts against the limit of the token, if anything. */
  readonly side?: Side
  /** Anybody may ask. */
  readonly isPublic?: boolean
  problemOf(namespace: string, queue: string): string | undefined
  answer(request: Request): Promise<Reply>
}

const QUEUE = '/api/:namespace/:queue'

export const ROUTES: readonly Route[] = [
  { ...of('PUT', ''), side: 'write', answer: publish },
  { ...of('PUT', '/bulk'), side: 'write', answer: publishBulk },
  { ...of('PUT', '/job/:job_id'), answer: republish },
  { ...of('GET', ''), side: 'read', problemOf: problemOfLists, answer: consume },
  { ...of('DELETE', '/job/:job_id'), answer: acknowledge },
  { ...of('GET', '/peek'), answer: peek },
  { ...of('GET', '/job/:job_id'), answer: peekJob },
  { ...of('GET', '/size'), isPublic: true, answer: size },
  { ...of('GET', '/deadletter/size'), isPublic: true, answer: deadSize },
  { ...of('GET', '/deadletter'), answer: deadHead },
  { ...of('PUT', '/deadletter'), answer: respawnDead },
  { ...of('DELETE', '/deadletter'), answer: deleteDead },
  { ...of('DELETE', ''), answer: destroy },
]

function of(method: string, rest: string) {
  return { method, path: `${QUEUE}${rest}`, problemOf: problemOfNames }
}

const BY_KEY = new Map(ROUTES.map((route) => [`${route.method} ${route.path}`, route]))

export interface Matched {
  readonly route: Route
  readonly namespace: string
  readonly queue: string
  readonly id: string
}

/** The path is decoded first, as lmstfy does it: an encoded slash parts names, too. Undefined: there is no such route. */
export function match(method: string, path: string): Matched | undefined {
  const parts = decoded(path)?.split('/')
  if (parts?.[0] !== '' || parts[1] !== 'api' || parts.includes('', 1)) return undefined
  const [, , namespace, queue, ...rest] = parts
  const [kind, id = ''] = rest
  if (!namespace || !queue || rest.length > 2) return undefined
  const pattern = kind === 'job' && id ? '/job/:job_id' : rest.map((part) => `/${part}`).join('')
  const route = BY_KEY.get(`${method} ${QUEUE}${pattern}`)
  return route && { route, namespace, queue, id }
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}
