import { Database, type Queryable } from '../postgres/database.ts'

/**
 * A database that knows how many payloads the pushes through it have added: what merges with one that waits adds none.
 * The server counts inserts anyway, for pg_stat_xact_user_tables, so that a push costs no more than it does.
 */
export class CountingDatabase extends Database {
  #added: number | undefined = 0

  /** How many since it was asked last; undefined where the server does not count: `track_counts` is off. */
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

  /** Before, the push, and after: each in need of the one before it. What a session did earlier may still be counted. */
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

  /** Partitions, where there are some, are counted one by one. */
  #inserted(): string {
    const table = `'${this.prefix.replaceAll("'", "''")}.payloads'::regclass`
    return `SELECT sum(pg_stat_get_xact_tuples_inserted(t.relid))::bigint
      FROM (SELECT ${table} AS relid UNION SELECT relid FROM pg_partition_tree(${table})) t`
  }
}
