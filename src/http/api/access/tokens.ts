import type { Asked } from '../../../serving/asked.ts'
import { Problem } from '../../../serving/problem.ts'
import { digestOfToken, looksLikeToken, type TokenGrant, type TokenRate } from '../../../token.ts'
import { type Access, type ApiRequest, forbidden, type Grant } from './access.ts'
import { KnownTokens } from './known-tokens.ts'
import { type Granted, Quotas } from './quotas.ts'

const CHALLENGE = 'Bearer realm="lockstep"'
const anyOfThem = async () => true

/** Where tokens are. */
export interface TokenStore {
  /** What tokens allow, by their digests in hexadecimal. */
  findTokens(digests: readonly Buffer[]): Promise<ReadonlyMap<string, TokenGrant>>
  /** Takes up to `wanted` of the requests that a token may make. */
  takeRequests(digest: Buffer, rate: TokenRate, wanted: number): Promise<Granted>
}

/** Lets in who has a token. */
export class Tokens implements Access {
  readonly #known: KnownTokens
  readonly #quotas: Quotas

  constructor({ findTokens, takeRequests }: TokenStore) {
    this.#known = new KnownTokens(findTokens)
    this.#quotas = new Quotas(takeRequests)
  }

  async admit({ headers }: Asked, _: unknown, { scope, queue }: ApiRequest): Promise<Grant> {
    const [, text] = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '') ?? []
    if (text === undefined)
      throw new Problem(
        401,
        'LOCKSTEP_LOGIN',
        'a token is needed: send Authorization: Bearer and the token',
        {
          'www-authenticate': CHALLENGE,
        },
      )
    if (!looksLikeToken(text)) throw wrong()
    const digest = digestOfToken(text)
    const { name, scopes, queues, rate } = await this.#find(digest)
    if (!scopes.includes(scope)) throw forbidden(scope)
    if (queue !== undefined && queues !== null && !queues.includes(queue)) throw forbidden(scope, queue)
    if (rate) await this.#quotas.count(digest, rate)
    return {
      actor: name,
      holder: `token ${digest.toString('hex')}`,
      queues,
      may: anyOfThem,
      requireStill: async () => void (await this.#find(digest)),
    }
  }

  /** @throws Problem 401 */
  async #find(digest: Buffer): Promise<TokenGrant> {
    const found = await this.#known.find(digest)
    if (!found) throw wrong()
    return found
  }
}

function wrong(): Problem {
  return new Problem(401, 'LOCKSTEP_LOGIN', 'the token is wrong, or was deleted', {
    'www-authenticate': `${CHALLENGE}, error="invalid_token"`,
  })
}
