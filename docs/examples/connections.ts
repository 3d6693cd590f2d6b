// The code of "Connections" in docs/operating.md.

import type { Duplex } from 'node:stream'
import { Client as NeonClient, Pool as NeonPool } from '@neondatabase/serverless'
import pg from 'pg'
import { type CreateClient, Lockstep } from 'pg-lockstep'

/** Of `@aws-sdk/rds-signer`. */
declare class Signer {
  constructor(options: { hostname: string; port: number; username: string; region: string })
  getAuthToken(): Promise<string>
}

/** Of `@google-cloud/cloud-sql-connector`. */
declare class Connector {
  getOptions(options: { instanceConnectionName: string; authType: 'IAM' }): Promise<{ stream(): Duplex }>
}

interface Place {
  readonly host: string
  readonly user: string
  readonly database: string
}

export function onRds({ host, user, database }: Place, region: string): Lockstep {
  const signer = new Signer({ hostname: host, port: 5432, username: user, region })
  const password = () => signer.getAuthToken()
  const pool = new pg.Pool({ host, user, database, password, ssl: true })
  return new Lockstep({ pool })
}

export async function onCloudSql(
  { user, database }: Place,
  instanceConnectionName: string,
): Promise<Lockstep> {
  const options = await new Connector().getOptions({ instanceConnectionName, authType: 'IAM' })
  const pool = new pg.Pool({ ...options, user, database })
  return new Lockstep({ pool })
}

export function onNeon(connectionString: string, directUrl: string): Lockstep {
  const pool = new NeonPool({ connectionString }) as unknown as pg.Pool
  return new Lockstep({ pool, createClient: () => new NeonClient(directUrl) })
}

export function besidePgBouncer({ user, database }: Place, password: () => Promise<string>): Lockstep {
  const login = { user, database, password }
  const pool = new pg.Pool({ host: 'pgbouncer', ...login })
  const createClient: CreateClient = (options, { direct }) =>
    new pg.Client({ ...options, host: direct ? 'postgres' : 'pgbouncer', ...login })
  return new Lockstep({ pool, createClient })
}

export function withModule(pool: pg.Pool): Lockstep {
  return new Lockstep({ pool, createClient: new URL('./create-client.js', import.meta.url) })
}
