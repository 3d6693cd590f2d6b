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
