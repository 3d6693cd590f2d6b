/** What a connection sends, again and again. */
export interface Shot {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** Of the request of this number. */
  path(number: number): string
  /** `answer`: to what the connection has sent before, in this turn. */
  readonly body?: string | ((number: number, answer: string) => string)
}

export interface LoadOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly connections: number
  /** Sent one after the other on each connection, in turns. */
  readonly shots: readonly Shot[]
  /** How many turns. */
  readonly amount: number
}

export interface Load {
  readonly seconds: number
}

/** Loaded by name, because this package does not include the peers'. */
export async function load(options: LoadOptions): Promise<Load> {
  const at = new URL('../peers/load.ts', import.meta.url).href
  const loaded = (await import(at)) as { load(options: LoadOptions): Promise<Load> }
  return loaded.load(options)
}
