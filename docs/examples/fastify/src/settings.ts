export interface Settings {
  readonly databaseUrl: string
  readonly host: string
  readonly port: number
  /** `embedded`: the server performs jobs too. `separate`: that is left to processes of their own, `npm run worker`. */
  readonly worker: 'embedded' | 'separate'
}

/** @throws Error that names the environment variable to correct */
export function settings(env: NodeJS.ProcessEnv = process.env): Settings {
  const {
    DATABASE_URL: databaseUrl,
    HOST: host = '127.0.0.1',
    PORT = '3000',
    WORKER: worker = 'embedded',
  } = env
  if (!databaseUrl) throw new Error('set DATABASE_URL, such as postgresql://user:password@host:5432/database')
  const port = Number(PORT)
  if (!Number.isInteger(port)) throw new Error(`PORT must be a whole number, not "${PORT}"`)
  if (worker !== 'embedded' && worker !== 'separate')
    throw new Error(`WORKER must be embedded or separate, not "${worker}"`)
  return { databaseUrl, host, port, worker }
}
