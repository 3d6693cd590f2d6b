export interface LoadOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly connections: number
  readonly method: 'GET' | 'PUT' | 'DELETE'
  /** Of the request of this number. */
  path(number: number): string
  readonly body?: string
  /** How many requests. */
  readonly amount: number
  /** Requests a second at most. */
  readonly rate?: number
}

export interface Load {
  readonly seconds: number
  /** ms */
  readonly p50: number
  readonly p95: number
  readonly p99: number
}

/** Loaded by name, because this package does not include the peers'. */
export async function load(options: LoadOptions): Promise<Load> {
  const at = new URL('../peers/load.ts', import.meta.url).href
  const loaded = (await import(at)) as { load(options: LoadOptions): Promise<Load> }
  return loaded.load(options)
}
