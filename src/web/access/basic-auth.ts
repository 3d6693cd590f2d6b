import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Arrival } from '../../serving/place.ts'
import { Problem } from '../../serving/problem.ts'
import { Attempts, networkOf } from './attempts.ts'
import type { Gate, Verdict } from './gate.ts'
import { ACTIONS, type BasicUser, type WebAction } from './users.ts'

const CHALLENGE = { 'www-authenticate': 'Basic realm="lockstep", charset="UTF-8"' }

/** Names and passwords are compared by keyed digests of one length, with all users, so that the time tells nothing. */
export class BasicAuth implements Gate {
  readonly scripts = true
  readonly #key = randomBytes(32)
  readonly #users: readonly { readonly user: Required<BasicUser>; readonly digest: Buffer }[]
  readonly #attempts = new Attempts()

  constructor(users: readonly Required<BasicUser>[]) {
    this.#users = users.map((user) => ({ user, digest: this.#digest(user.username, user.password) }))
  }

  async ask(request: Request, action: WebAction, { address = '' }: Arrival): Promise<Verdict> {
    const login = loginOf(request.headers.get('authorization'))
    if (!login) throw new Problem(401, 'LOCKSTEP_LOGIN', 'a user name and password are needed', CHALLENGE)
    const network = networkOf(address)
    const wait = this.#attempts.wait(network)
    if (wait > 0) {
      throw new Problem(429, 'LOCKSTEP_LOGIN', 'too many failed logins: wait before you try again', {
        'retry-after': String(Math.ceil(wait / 1_000)),
      })
    }
    const user = this.#find(login)
    if (!user) {
      this.#attempts.fail(network)
      throw new Problem(401, 'LOCKSTEP_LOGIN', 'the user name or the password is wrong', CHALLENGE)
    }
    const { username: actor, role } = user
    return { allowed: ACTIONS.indexOf(role) >= ACTIONS.indexOf(action), actor }
  }

  #find([username, password]: readonly [string, string]): Required<BasicUser> | undefined {
    const given = this.#digest(username, password)
    let found: Required<BasicUser> | undefined
    for (const { user, digest } of this.#users) if (timingSafeEqual(digest, given)) found = user
    return found
  }

  #digest(username: string, password: string): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify([username, password]))
      .digest()
  }
}

/** The name ends at the first colon; a password may have some. */
function loginOf(header: string | null): [string, string] | undefined {
  const [, encoded] = /^Basic +([\w+/=-]+) *$/i.exec(header ?? '') ?? []
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : [text.slice(0, colon), text.slice(colon + 1)]
}
