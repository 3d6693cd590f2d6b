export interface Settings {
  readonly databaseUrl: string
  readonly host: string
  readonly port: number
}

/** @throws Error that names the environment variable to correct */
export function settings(env: NodeJS.ProcessEnv = process.env): Settings {
  const { DATABASE_URL: databaseUrl, HOST: host = '127.0.0.1', PORT = '3000' } = env
  if (!databaseUrl) throw new Error('set DATABASE_URL, such as postgresql://user:password@host:5432/database')
  const port = Number(PORT)
  if (!Number.isInteger(port)) throw new Error(`PORT must be a whole number, not "${PORT}"`)
  return { databaseUrl, host, port }
}
