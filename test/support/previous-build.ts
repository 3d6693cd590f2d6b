import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import { SERIAL } from '../../src/postgres/serial.ts'
import { Copy } from '../mutants/copy.ts'
import { type Edit, source } from '../mutants/mutant.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Of the definitions in the file. */
const PREVIOUS = 22

/** What a migration applies after those definitions. */
export const MIGRATIONS_SINCE = [
  '0002_first_payload',
  '0003_attempts',
  '0004_audit',
  '0005_process_reports',
  '0006_failed_jobs',
  '0007_tenants',
  '0008_leases',
  '0009_bounded_limits',
  '0010_expiry',
  '0011_http',
  '0012_lmstfy',
  '0013_results',
  '0014_keys',
  '0015_tenant_waits',
  '0016_deaths',
]

/** The SQL that creates the schema as it was when each job took two rows. */
export function previousDefinitions(): string {
  return readFileSync(new URL(`definitions-${PREVIOUS}.sql`, import.meta.url), 'utf8')
}

/** The grants of then, to these roles. */
export function previousRoles(roles: Readonly<Record<'producer' | 'worker' | 'viewer', string>>): string {
  const text = readFileSync(new URL(`roles-${PREVIOUS}.sql`, import.meta.url), 'utf8')
  const values: Readonly<Record<string, string>> = {
    schema: '"lockstep"',
    names: Object.values(roles).map(pg.escapeLiteral).join(', '),
    ...Object.fromEntries(Object.entries(roles).map(([place, role]) => [place, pg.escapeIdentifier(role)])),
  }
  return text.replace(/@(\w+)@/g, (_, place: string) => values[place]!)
}

/** Calls of functions, and uses of columns, that were not there. */
const EDITS: readonly Edit[] = [
  source('store/push', ", 'jsonb', 'text', 'timestamptz', ...PLACE]", ", 'jsonb', ...PLACE]"),
  source('store/push', "  'jsonb[]',\n  'text[]',\n  'timestamptz[]',\n]", "  'jsonb[]',\n]"),
  source('store/push', 'lane, headers, tenant, timeOf(expiresIn)]', 'lane ?? 0, headers]'),
  source(
    'store/push',
    '    jobs.some(({ expiresIn }) => expiresIn !== null) ? jobs.map((job) => timeOf(job.expiresIn)) : null,\n',
    '',
  ),
  source(
    'store/push',
    '    jobs.some(({ tenant }) => tenant !== null) ? jobs.map((job) => job.tenant) : null,\n',
    '',
  ),
  source('store/push', "name: 'put_in_transaction'", "name: 'enqueue_in_transaction'"),
  source('store/push', "name: 'put_many_in_transaction'", "name: 'enqueue_many_in_transaction'"),
  source(
    'store/same-transaction',
    "name: 'put_many_if_same_transaction'",
    "name: 'enqueue_many_if_same_transaction'",
  ),
  source('store/exchange', ', c.passed, c.tenant,\n      c.expires_in, c.expired\n', ', c.passed\n'),
  source(
    'store/exchange',
    ' AS passed, NULL AS tenant,\n      NULL::bigint AS expires_in, NULL::integer AS expired\n',
    ' AS passed\n',
  ),
  source(
    'store/head',
    `\n     UNION ALL SELECT t.queue_id, NULL, t.lane, NULL, NULL, NULL FROM \${prefix}.tenant_lanes_of($6) t\n`,
    ' WHERE $6::integer[] IS NOT NULL\n',
  ),
  source('worker/preparation', 'await replaceSetting(database, setting, definitions)', '[] as number[]'),
  source('worker/maintenance/trimming', 'trim: trimTenants ', 'trim: async () => 0 '),
  source('worker/maintenance/trimming', 'trim: trimLimits ', 'trim: async () => 0 '),
  source('worker/maintenance/trimming', 'trim: trimKeys ', 'trim: async () => 0 '),
  source('worker/maintenance/trimming', 'trim: trimResults ', 'trim: async () => 0 '),
  source('worker/maintenance/trimming', 'trim: trimReplyQueues ', 'trim: async () => 0 '),
  source('store/exchange', '[...columnsOfWishes(wishes), spotsOf(wishes)]', 'columnsOfWishes(wishes)'),
  source('store/settle', "'lock_claims'", "'lock_rounds'"),
  source('store/settle', "name: 'fail_claims'", "name: 'fail'"),
  source('store/settle', "'float8[]', 'text[]', 'bool']", "'float8[]', 'bool']"),
  source('store/settle', ', kindsOf(failures)]', ']'),
  source(
    'store/settle',
    `crashes + 1,\n         attempts = \${database.prefix}.with_attempt(attempts, error, 'crash', retry_count)`,
    'crashes + 1',
  ),
  source('store/exchange', "fail: 'fail_claims'", "fail: 'fail'"),
  source('worker/maintenance/trimming', 'trim: trimAudit ', 'trim: async () => 0 '),
  source(
    'worker/maintenance/expiry',
    'await removeExpired(database, [...this.#cursors.values()], CHUNK)',
    '[] as ExpiredRemoved[]',
  ),
  source(
    'store/counter',
    ', $4::bigint[]) AS n(queue_id, processed, failed, expired)',
    ', $4::bigint[]) AS n(queue_id, processed, failed, unused)',
  ),
  source(
    'store/counter',
    '(queue_id, day, processed, failed, expired)',
    '(queue_id, day, processed, failed)',
  ),
  source(
    'store/counter',
    'current_date, n.processed, n.failed, n.expired',
    'current_date, n.processed, n.failed',
  ),
  source(
    'store/counter',
    '(queue_id, minute, processed, failed, expired)',
    '(queue_id, minute, processed, failed)',
  ),
  source(
    'store/counter',
    'clock_timestamp()), n.processed, n.failed, n.expired',
    'clock_timestamp()), n.processed, n.failed',
  ),
  source('store/counter', ',\n         expired = c.expired + excluded.expired', ''),
  source('store/counter', ',\n       expired = c.expired + excluded.expired', ''),
  source('store/stats', 's.failed, s.expired', 's.failed, 0 AS expired'),
  source('worker/membership/lease-thread', 'const told = report\n', 'const told = undefined\n'),
  source('store/process', ' AS overdue, p.request\n', ' AS overdue\n'),
  source('store/process', 'RETURNING process_id, request)', 'RETURNING process_id, NULL AS request)'),
  source(
    'store/process',
    `,
       unreported AS (DELETE FROM \${prefix}.process_reports r USING removed p WHERE r.process_id = p.process_id)`,
    '',
  ),
  source('store/comparison', `      EXISTS (SELECT FROM \${prefix}.leases) AS leases,\n`, ''),
  source(
    'store/comparison',
    `,
      CASE s.request WHEN 'quiet' THEN 1 WHEN 'stop' THEN 2 END`,
    '',
  ),
]

/** The project as it was before `0002_first_payload`, as far as its processes call the database, in its own directory. */
export class PreviousBuild {
  readonly #copy = new Copy(ROOT)

  constructor() {
    this.#copy.edit(source('postgres/serial', `SERIAL = ${SERIAL}\n`, `SERIAL = ${PREVIOUS}\n`))
    for (const name of MIGRATIONS_SINCE)
      this.#copy.edit({
        file: 'migrations/index.ts',
        from: `  '${name}': () => import('./${name}.ts'),\n`,
        to: '',
      })
    for (const edit of EDITS) this.#copy.edit(edit)
  }

  /** The URL of a module, for `fork`. */
  url(path: string): URL {
    return pathToFileURL(join(this.#copy.directory, path))
  }

  remove(): void {
    this.#copy.remove()
  }
}
