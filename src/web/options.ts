import type { IncomingMessage } from 'node:http'
import { OptionError } from '../errors.ts'
import { optionalFunction, rejectUnknownOptions, show, trueOrFalse } from '../options.ts'
import { type BasicUser, checkUsers, type WebAction } from './access/users.ts'

/** `true`, or who it is, for the log, means yes; anything else means no. */
export type Decision = boolean | { readonly actor: string } | null | undefined

export interface WebOptions {
  /**
   * Decides each request: whether it may view, act on jobs, or configure queues. If it throws, the answer is no. It gets the
   * request without its body and, if the page is mounted with `node`, also Node's, with what your middleware put there.
   */
  readonly authorize?: (
    request: Request,
    action: WebAction,
    incoming?: IncomingMessage,
  ) => Decision | Promise<Decision>
  /** Asks for a user's name and password, over HTTPS outside of this machine. Failed tries are limited by address. */
  readonly basicAuth?: BasicUser | readonly BasicUser[]
  /** `open`: whoever reaches the page may do everything. */
  readonly access?: 'open'
  /** Nobody may act or configure. Default false. */
  readonly readOnly?: boolean
  /**
   * Where the page is mounted, as browsers see it, such as `/jobs`. Default: where Express has mounted it, otherwise `/`.
   */
  readonly path?: string
  /**
   * The origins under which browsers reach the page, such as `https://admin.example.com`, if a proxy changes the header Host.
   * Default: the host of the request.
   */
  readonly origins?: readonly string[]
  /**
   * Returns what is shown of a payload, wherever one is. If it throws, or returns undefined or a promise, the payload is
   * hidden. What it changes is shown as JavaScript has it; what it leaves alone keeps the digits of its numbers.
   */
  readonly redact?: (payload: unknown, about: { readonly queue: string; readonly id: string }) => unknown
}

const CHOICES = ['authorize', 'basicAuth', 'access'] as const
const OPTIONS = [...CHOICES, 'readOnly', 'path', 'origins', 'redact']

export interface CheckedOptions extends Pick<WebOptions, 'authorize' | 'redact'> {
  /** Undefined unless it is basic auth. */
  readonly users: readonly Required<BasicUser>[] | undefined
  readonly readOnly: boolean
  /** Undefined: is found out. Without a slash at its end. */
  readonly path: string | undefined
  readonly origins: readonly string[] | undefined
}

/** @throws OptionError */
export function checkWebOptions(options: WebOptions): CheckedOptions {
  rejectUnknownOptions(options, OPTIONS, 'lockstepWeb')
  const chosen = CHOICES.filter((name) => options[name] !== undefined)
  if (chosen.length !== 1) {
    const found = chosen.length === 0 ? 'none is given' : `${chosen.join(' and ')} are given`
    throw new OptionError(
      `lockstepWeb: say who may see the page by one of \`authorize\`, \`basicAuth\` or \`access: 'open'\`: ${found}`,
    )
  }
  const { authorize, basicAuth, access, readOnly = false, path, origins, redact } = options
  if (access !== undefined && access !== 'open')
    throw new OptionError(`lockstepWeb: access must be 'open' or left out, not ${show(access)}`)
  return {
    authorize: optionalFunction(authorize, 'lockstepWeb: authorize'),
    users: basicAuth === undefined ? undefined : checkUsers(basicAuth),
    readOnly: trueOrFalse(readOnly, 'lockstepWeb: readOnly'),
    path: path === undefined ? undefined : checkPath(path),
    origins: origins === undefined ? undefined : checkOrigins(origins),
    redact: optionalFunction(redact, 'lockstepWeb: redact'),
  }
}

/** Goes into links and the path of a cookie, so it has no characters with a meaning there. */
function checkPath(path: unknown): string {
  if (path === '/') return ''
  if (typeof path === 'string' && /^(\/(?!\.{1,2}(\/|$))[\w.~@%+-]+)+\/?$/.test(path))
    return path.replace(/\/$/, '')
  throw new OptionError(`lockstepWeb: path must be a path such as /jobs, not ${show(path)}`)
}

function checkOrigins(origins: unknown): readonly string[] {
  if (!Array.isArray(origins) || origins.length === 0)
    throw new OptionError(`lockstepWeb: origins must be a list of origins, not ${show(origins)}`)
  return origins.map((origin, index) => {
    if (typeof origin === 'string' && URL.canParse(origin)) {
      const url = new URL(origin)
      if (/^https?:$/.test(url.protocol) && [url.origin, `${url.origin}/`].includes(origin)) return url.origin
    }
    throw new OptionError(
      `lockstepWeb: origins[${index}] must be an origin such as https://admin.example.com, not ${show(origin)}`,
    )
  })
}
