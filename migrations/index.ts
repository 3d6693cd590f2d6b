import type { Kysely } from 'kysely'

export interface SchemaMigration {
  /** `db` already points at the schema; `schema` is its bare name, for raw SQL. */
  up(db: Kysely<unknown>, schema: string): Promise<void>
}

/**
 * Every migration under its number, in the order in which they run; each is loaded when it has to be applied. A
 * published migration is never changed.
 */
export const migrations: Readonly<Record<string, () => Promise<SchemaMigration>>> = {
  '0001_tables': () => import('./0001_tables.ts'),
  '0002_first_payload': () => import('./0002_first_payload.ts'),
  '0003_attempts': () => import('./0003_attempts.ts'),
  '0004_audit': () => import('./0004_audit.ts'),
  '0005_process_reports': () => import('./0005_process_reports.ts'),
  '0006_failed_jobs': () => import('./0006_failed_jobs.ts'),
  '0007_tenants': () => import('./0007_tenants.ts'),
  '0008_leases': () => import('./0008_leases.ts'),
  '0009_bounded_limits': () => import('./0009_bounded_limits.ts'),
  '0010_expiry': () => import('./0010_expiry.ts'),
  '0011_http': () => import('./0011_http.ts'),
  '0012_lmstfy': () => import('./0012_lmstfy.ts'),
  '0013_results': () => import('./0013_results.ts'),
  '0014_keys': () => import('./0014_keys.ts'),
  '0015_tenant_waits': () => import('./0015_tenant_waits.ts'),
  '0016_deaths': () => import('./0016_deaths.ts'),
}
