import { type Kysely, sql } from 'kysely'

/**
 * Finds jobs that have failed among any number of others, by how often. Most jobs have never failed, and are not in it.
 *
 * `retry_count` changes only where `perform_in` does, which has an index anyway: so claims stay HOT updates that touch no
 * index, and what this one costs is an entry for each failure. Building it reads all jobs, and pushes wait meanwhile: whoever
 * has many builds it before, without a lock.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await sql`create index if not exists jobs_failed on ${sql.id(schema, 'jobs')} (queue_id, retry_count, id) where retry_count >= 0`.execute(
    db,
  )
}
