import { createHash, timingSafeEqual } from 'node:crypto'

export interface AdminUser {
  readonly username: string
  readonly password: string
}

/** The one user of administration. What is given is compared by digests of one length, so that the time tells nothing. */
export class BasicAuth {
  readonly #digest: Buffer

  constructor({ username, password }: AdminUser) {
    this.#digest = digestOf(`${username}:${password}`)
  }

  admits(header: string | undefined): boolean {
    const [, encoded = ''] = /^Basic +([\w+/=-]+) *$/i.exec(header ?? '') ?? []
    return timingSafeEqual(this.#digest, digestOf(Buffer.from(encoded, 'base64').toString()))
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
