import { OptionError } from '../../errors.ts'
import { Lockstep } from '../../index.ts'
import { isPlain, rejectUnknownOptions, show, trueOrFalse, wholeNumber } from '../../options.ts'
import { MOST_BODIES } from '../bodies.ts'
import type { AdminUser } from './basic-auth.ts'
import { DEFAULTS, type Defaults } from './parameters.ts'
import { DEFAULT_POOL } from './token.ts'

/** A pool whose jobs move to another one. */
export interface MigratingPool {
  readonly lockstep: Lockstep
  /** The name of the pool that new jobs go to. Those of this one are handed over first. */
  readonly migrateTo: string
}

export interface LmstfyOptions {
  /** The databases in which jobs are, by the prefix of tokens that lead there. `default` has the tokens, too. */
  readonly pools: Readonly<Record<string, Lockstep | MigratingPool>>
  /** What requests have that don't say otherwise. Default: ttl 86,400, delay 0, tries 1, ttr 120, timeout 0. */
  readonly defaults?: Partial<Defaults>
  /** Who may administer tokens, limits and the access log. Default: whoever reaches the administration. */
  readonly admin?: AdminUser
  /** Whether each request is logged, without a token. Default false. */
  readonly accessLog?: boolean
  /**
   * Most bytes of bodies of requests that are under way at once; above, requests get 503 until others are answered. One body is always
   * taken. Default 128 MiB.
   */
  readonly maxBodies?: number
}

export interface LmstfySettings {
  readonly pools: ReadonlyMap<string, { readonly lockstep: Lockstep; readonly migrateTo: string | undefined }>
  readonly defaults: Defaults
  readonly admin: AdminUser | undefined
  readonly accessLog: boolean
  readonly maxBodies: number
}

const NAME = /^[-_A-Za-z0-9]{1,255}$/

/** @throws OptionError; no message shows a password */
export function checkLmstfyOptions(options: LmstfyOptions): LmstfySettings {
  rejectUnknownOptions(options, ['pools', 'defaults', 'admin', 'accessLog', 'maxBodies'], 'lmstfy')
  const { pools, defaults = {}, admin, accessLog = false, maxBodies = MOST_BODIES } = options
  if (!isPlain(pools) || !(DEFAULT_POOL in pools))
    throw new OptionError(
      `lmstfy: pools must be an object of databases by name, with a pool "${DEFAULT_POOL}"`,
    )
  const checked = new Map(Object.entries(pools).map(([name, pool]) => [name, checkPool(name, pool)]))
  for (const [name, { migrateTo }] of checked) checkTarget(name, migrateTo, checked)
  return {
    pools: checked,
    defaults: checkDefaults(defaults),
    admin: admin && checkAdmin(admin),
    accessLog: trueOrFalse(accessLog, 'lmstfy: accessLog'),
    maxBodies: wholeNumber(maxBodies, 1, Number.MAX_SAFE_INTEGER, 'lmstfy: maxBodies'),
  }
}

function checkPool(name: string, pool: Lockstep | MigratingPool) {
  const what = `lmstfy: pools.${name}`
  if (!NAME.test(name))
    throw new OptionError(`${what}: a name has 1 to 255 letters, digits, hyphens and underscores`)
  if (pool instanceof Lockstep) return { lockstep: pool, migrateTo: undefined }
  if (!isPlain(pool) || !(pool.lockstep instanceof Lockstep))
    throw new OptionError(`${what} must be a Lockstep, or { lockstep, migrateTo }, not ${show(pool)}`)
  rejectUnknownOptions(pool, ['lockstep', 'migrateTo'], what)
  return { lockstep: pool.lockstep, migrateTo: pool.migrateTo }
}

/** One step: jobs of a pool that moves can't move on. */
function checkTarget(name: string, to: string | undefined, pools: LmstfySettings['pools']): void {
  if (to === undefined) return
  const target = pools.get(to)
  const what = `lmstfy: pools.${name}.migrateTo`
  if (!target || to === name) throw new OptionError(`${what} must name another pool, not ${show(to)}`)
  if (target.migrateTo !== undefined)
    throw new OptionError(`${what}: the pool "${to}" moves itself; name the pool where its jobs go`)
}

function checkDefaults(defaults: Partial<Defaults>): Defaults {
  rejectUnknownOptions(defaults, Object.keys(DEFAULTS), 'lmstfy: defaults')
  const checked = { ...DEFAULTS, ...defaults }
  for (const [name, value] of Object.entries(checked))
    wholeNumber(
      value,
      name === 'tries' ? 1 : 0,
      name === 'tries' ? 65_535 : 2 ** 32 - 1,
      `lmstfy: defaults.${name}`,
    )
  if (checked.ttl > 0 && checked.ttl < checked.delay)
    throw new OptionError('lmstfy: defaults.ttl is shorter than defaults.delay')
  return checked
}

function checkAdmin(user: AdminUser): AdminUser {
  rejectUnknownOptions(user, ['username', 'password'], 'lmstfy: admin')
  const { username, password } = user
  if (typeof username !== 'string' || username === '' || username.includes(':'))
    throw new OptionError('lmstfy: admin.username must be text without a colon')
  if (typeof password !== 'string' || password === '')
    throw new OptionError('lmstfy: admin.password must be text, and not be empty: is a variable not set?')
  return { username, password }
}
