import { Problem } from '../../../serving/problem.ts'
import { digestOfToken, looksLikeToken, type TokenGrant } from '../../../token.ts'
import { type Access, type ApiRequest, forbidden, type Grant } from './access.ts'
import { KnownTokens } from './known-tokens.ts'

const CHALLENGE = 'Bearer realm="lockstep"'
const anyOfThem = async () => true

/** Lets in who has a token. */
export class Tokens implements Access {
  readonly #known: KnownTokens

  /** `find`: what tokens allow, by their digests in hexadecimal. */
  constructor(find: (digests: readonly Buffer[]) => Promise<ReadonlyMap<string, TokenGrant>>) {
    this.#known = new KnownTokens(find)
  }

  async admit({ headers }: Request, _: unknown, { scope, queue }: ApiRequest): Promise<Grant> {
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
    const digest = digestOfToken(text)
    const found = looksLikeToken(text) ? await this.#known.find(digest) : undefined
    if (!found)
      throw new Problem(401, 'LOCKSTEP_LOGIN', 'the token is wrong, or was deleted', {
        'www-authenticate': `${CHALLENGE}, error="invalid_token"`,
      })
    const { name, scopes, queues } = found
    if (!scopes.includes(scope)) throw forbidden(scope)
    if (queue !== undefined && queues !== null && !queues.includes(queue)) throw forbidden(scope, queue)
    return { actor: name, holder: `token ${digest.toString('hex')}`, queues, may: anyOfThem }
  }
}
