import type { IncomingMessage } from 'node:http'
import { OptionError } from '../../errors.ts'
import type { Queue } from '../../index.ts'
import { optionalFunction, rejectUnknownOptions, show, wholeNumber } from '../../options.ts'
import { isQueue } from '../../queue.ts'
import { MOST_BODIES } from '../bodies.ts'
import type { Admission, ApiRequest } from './access/access.ts'

export interface ApiOptions {
  /**
   * `tokens`: who has a token of `lockstep token create`. `open`: whoever reaches the API may do everything. Give either this or
   * `authorize`.
   */
  readonly access?: 'tokens' | 'open'
  /**
   * Decides each request. It's asked once before the body is read, with the queue if the path names one, and then for each queue
   * that the body names. If it throws, the answer is no. It gets the request without its body and, if the API is mounted with
   * `node`, also Node's.
   */
  readonly authorize?: (
    request: Request,
    wanted: ApiRequest,
    incoming?: IncomingMessage,
  ) => Admission | Promise<Admission>
  /**
   * Definitions of queues: their shards, tenants and schemas hold for what is pushed, and how often jobs are tried again, when, and
   * how much a round takes, for what is claimed. A queue that is only named has the defaults. `maxRetryCount` must be a number.
   */
  readonly queues?: readonly Queue[]
  /** Where the API is mounted. Default: where Express has mounted it, otherwise `/v1`. */
  readonly path?: string
  /** Most bytes of a body, up to 64 MiB. Default 4 MiB. */
  readonly maxBody?: number
  /**
   * Most bytes of bodies of requests that are under way at once; above, requests get 503 until others are answered. One body is always
   * taken. Default 128 MiB.
   */
  readonly maxBodies?: number
  /** Most jobs of a push, up to 100,000. Default 10,000. */
  readonly maxJobs?: number
  /** ms in which a body must have come. Default 30,000. */
  readonly bodyTimeout?: number
}

const OPTIONS = ['access', 'authorize', 'queues', 'path', 'maxBody', 'maxBodies', 'maxJobs', 'bodyTimeout']

const MIB = 1024 * 1024

export interface CheckedOptions {
  readonly access: 'tokens' | 'open' | NonNullable<ApiOptions['authorize']>
  readonly queues: readonly Queue[]
  /** Undefined: is found out. Without a slash at its end. */
  readonly path: string | undefined
  readonly maxBody: number
  readonly maxBodies: number
  readonly maxJobs: number
  readonly bodyTimeout: number
}

/** @throws OptionError */
export function checkApiOptions(options: ApiOptions): CheckedOptions {
  rejectUnknownOptions(options, OPTIONS, 'lockstepApi')
  const { queues = [], path, maxJobs = 10_000, bodyTimeout = 30_000 } = options
  const { maxBody = 4 * MIB, maxBodies = MOST_BODIES } = options
  if (!Array.isArray(queues) || !queues.every(isQueue))
    throw new OptionError('lockstepApi: queues must be a list of what defineQueue() returns')
  return {
    access: accessOf(options),
    queues,
    path: path === undefined ? undefined : checkPath(path),
    maxBody: wholeNumber(maxBody, 1, 64 * MIB, 'lockstepApi: maxBody'),
    maxBodies: wholeNumber(maxBodies, 1, Number.MAX_SAFE_INTEGER, 'lockstepApi: maxBodies'),
    maxJobs: wholeNumber(maxJobs, 1, 100_000, 'lockstepApi: maxJobs'),
    bodyTimeout: wholeNumber(bodyTimeout, 1, 3_600_000, 'lockstepApi: bodyTimeout'),
  }
}

function accessOf({ access, authorize }: ApiOptions): CheckedOptions['access'] {
  if ((access === undefined) === (authorize === undefined))
    throw new OptionError(
      "lockstepApi: say who may use the API by one of `access: 'tokens'`, `access: 'open'` or `authorize`",
    )
  if (authorize !== undefined) return optionalFunction(authorize, 'lockstepApi: authorize')
  if (access === 'tokens' || access === 'open') return access
  throw new OptionError(`lockstepApi: access must be 'tokens' or 'open', not ${show(access)}`)
}

function checkPath(path: unknown): string {
  if (path === '/') return ''
  if (typeof path === 'string' && /^(\/(?!\.{1,2}(\/|$))[\w.~@%+-]+)+\/?$/.test(path))
    return path.replace(/\/$/, '')
  throw new OptionError(`lockstepApi: path must be a path such as /v1, not ${show(path)}`)
}
