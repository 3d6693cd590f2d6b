/** A request, whichever server took it. */
export interface Call {
  readonly method: string
  /** Percent-encoded, without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** By lower-case name; several of one name are joined by commas. */
  header(name: string): string | undefined
  headers(): Iterable<readonly [name: string, value: string]>
  /**
   * Reads the body, once. Undefined: it has more than `most` bytes, and the rest is not read. Nor is it if `onBytes` throws, which is
   * called with the length of each part that comes.
   */
  body(most: number, onBytes?: (bytes: number) => void): Promise<Buffer | undefined>
  /** Aborted when the client goes away. Whoever wants the body reads it first: what is left of it is thrown away. */
  readonly signal: AbortSignal
  /** A number for the client's connection, if that is known. */
  readonly connection?: number | undefined
  readonly address?: string | undefined
}

export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export type Answer = (call: Call) => Promise<Reply>

export function json(status: number, value: unknown, headers?: Readonly<Record<string, string>>): Reply {
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify(value),
  }
}
