import { Database, type Queryable } from '../postgres/database.ts'

/**
 * A database that counts the payloads added by pushes through it; a payload that merges with a waiting one adds none,
 * unless it has a lower score than the equal one that the job's row carries: those two merge when they are claimed. The
 * server counts inserts anyway, for pg_stat_xact_user_tables, so counting makes a push no more expensive.
 */
export class CountingDatabase extends Database {
  #added: number | undefined = 0

  /** The number since the last call; undefined if the server does not count because `track_counts` is off. */
  take(): number | undefined {
    const added = this.#added
    this.#added = 0
    return added
  }

  override async run(name: string, values: unknown[], on?: Queryable): Promise<void> {
    const text = this.#counted(name, values.length)
    const [row] = await (on
      ? this.query<{ added: number | null }>(text, values, on)
      : this.alone<{ added: number | null }>(text, values))
    const { added } = row!
    this.#added = added === null || this.#added === undefined ? undefined : this.#added + added
  }

  /** Count, push, count: each step depends on the one before. The first count covers what the session did earlier. */
  #counted(name: string, parameters: number): string {
    const places = Array.from({ length: parameters }, (_, index) => `$${index + 1}`)
    const inserted = this.#inserted()
    return `SELECT CASE WHEN current_setting('track_counts')::bool THEN a.n - b.n END AS added
      FROM (SELECT (${inserted}) AS n OFFSET 0) b
      CROSS JOIN LATERAL (
        SELECT ${this.prefix}.${name}(${places.join(', ')})::text IS NULL AS done WHERE b.n IS NOT NULL OFFSET 0
      ) p
      CROSS JOIN LATERAL (SELECT (${inserted}) AS n WHERE p.done IS NOT NULL OFFSET 0) a`
  }

  /** A payload is a row of its own, or part of a new job's row. The server counts each partition separately. */
  #inserted(): string {
    const inserted = (name: string) => {
      const table = `'${this.prefix.replaceAll("'", "''")}.${name}'::regclass`
      return `SELECT sum(pg_stat_get_xact_tuples_inserted(t.relid))::bigint
        FROM (SELECT ${table} UNION SELECT relid FROM pg_partition_tree(${table})) AS t(relid)`
    }
    return `SELECT (${inserted('payloads')}) + CASE WHEN ${this.prefix}.carries() THEN (${inserted('jobs')}) ELSE 0 END`
  }
}
