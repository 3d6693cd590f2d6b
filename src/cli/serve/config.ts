import { readFile } from 'node:fs/promises'
import type { LmstfyOptions } from '../../http/lmstfy/options.ts'
import type { Listening } from '../../http/server.ts'
import { type ConnectionOptions, checkConnection } from '../connection.ts'
import { keepSecret, UsageError } from '../failure.ts'
import { LARGEST_PORT, MOST_DRAIN_DELAY, type ServeFlags } from '../serve.ts'
import { nearestOf } from '../suggest.ts'

const LOCAL = '127.0.0.1'
const FIELDS = [
  'host',
  'port',
  'adminHost',
  'adminPort',
  'admin',
  'pools',
  'defaults',
  'accessLog',
  'maxBodies',
  'drainDelay',
]
const POOL_FIELDS = ['url', 'directUrl', 'schema', 'migrateTo']
const DEFAULT_POOL = 'default'

export interface PoolConfig {
  readonly connectionString: string
  readonly directUrl: string | undefined
  readonly schema: string
  readonly migrateTo: string | undefined
}

export interface GatewayConfig {
  readonly api: Listening
  readonly admin: Listening
  readonly pools: ReadonlyMap<string, PoolConfig>
  /** s between a signal to stop and the end of the ports. */
  readonly drainDelay: number
  readonly lmstfy: Pick<LmstfyOptions, 'admin' | 'defaults' | 'accessLog' | 'maxBodies'>
}

type Fields = Readonly<Record<string, unknown>>

/** @throws UsageError; no message shows a password */
export async function readConfig(
  flags: ServeFlags,
  ports: { readonly port: number; readonly adminPort: number },
): Promise<GatewayConfig> {
  const file = flags.config === undefined ? {} : await readFields(flags.config)
  requireKnown(file, FIELDS, 'the configuration')
  const place = (host: 'host' | 'adminHost', port: 'port' | 'adminPort'): Listening => ({
    host: flags[host] ?? textOf(file[host], host) ?? LOCAL,
    port: flags[port] ?? wholeNumberOf(file[port], LARGEST_PORT, port) ?? ports[port],
  })
  const admin = resolved(file.admin) as LmstfyOptions['admin']
  if (typeof admin?.password === 'string') keepSecret(admin.password)
  return {
    api: place('host', 'port'),
    admin: place('adminHost', 'adminPort'),
    pools: poolsOf(file.pools, flags),
    drainDelay: flags.drainDelay ?? wholeNumberOf(file.drainDelay, MOST_DRAIN_DELAY, 'drainDelay') ?? 0,
    lmstfy: {
      ...(admin && { admin }),
      ...(file.defaults !== undefined && { defaults: file.defaults as LmstfyOptions['defaults'] & object }),
      ...(file.accessLog !== undefined && { accessLog: file.accessLog as boolean }),
      ...(file.maxBodies !== undefined && { maxBodies: file.maxBodies as number }),
    },
  }
}

async function readFields(file: string): Promise<Fields> {
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new UsageError(`can't read ${file}: ${error.message}`)
  })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${file} is no JSON: ${(error as Error).message.replace(/".*"/s, '…')}`)
  }
  if (!isFields(value)) throw new UsageError(`${file} must hold a JSON object`)
  return value
}

/** Without pools in the file, the one that the command line names. */
function poolsOf(pools: unknown, flags: ConnectionOptions): Map<string, PoolConfig> {
  if (pools === undefined)
    return new Map([[DEFAULT_POOL, { ...checkConnection(flags), migrateTo: undefined }]])
  if (!isFields(pools) || !(DEFAULT_POOL in pools))
    throw new UsageError(`pools must be an object of databases by name, with a pool "${DEFAULT_POOL}"`)
  return new Map(Object.entries(pools).map(([name, pool]) => [name, poolOf(name, pool, flags)]))
}

function poolOf(name: string, given: unknown, { schema }: ConnectionOptions): PoolConfig {
  const pool = resolved(typeof given === 'string' ? { url: given } : given)
  if (!isFields(pool)) throw new UsageError(`pools.${name} must be a URL, or an object with one`)
  requireKnown(pool, POOL_FIELDS, `pools.${name}`)
  const field = (key: string) => textOf(pool[key], `pools.${name}.${key}`)
  const [databaseUrl, directUrl] = [field('url'), field('directUrl')]
  if (databaseUrl === undefined) throw new UsageError(`pools.${name} has no url`)
  const connection = {
    databaseUrl,
    schema: field('schema') ?? schema,
    ...(directUrl !== undefined && { directUrl }),
  }
  return { ...checkConnection(connection), migrateTo: field('migrateTo') }
}

/** Text that begins with $ is the value of an environment variable. */
function resolved(value: unknown): unknown {
  if (!isFields(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fromEnvironment(one, key)]))
}

function fromEnvironment(value: unknown, key: string): unknown {
  if (typeof value !== 'string' || !value.startsWith('$')) return value
  const found = process.env[value.slice(1)]
  if (!found) throw new UsageError(`${key}: the environment variable ${value.slice(1)} is not set`)
  return found
}

function requireKnown(fields: Fields, known: readonly string[], what: string): void {
  const strange = Object.keys(fields).find((key) => !known.includes(key))
  if (strange === undefined) return
  const near = nearestOf(strange, known)
  throw new UsageError(`${what} has an unknown field "${strange}"${near ? `: did you mean "${near}"?` : ''}`)
}

function textOf(value: unknown, what: string): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value as string | undefined
  throw new UsageError(`${what} must be text`)
}

function wholeNumberOf(value: unknown, most: number, what: string): number | undefined {
  if (value === undefined) return undefined
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most) return value as number
  throw new UsageError(`${what} must be a whole number from 0 to ${most}`)
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
