import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { carryingDefinition } from './definitions.ts'
import { quoteIdentifier } from './schema-name.ts'

/**
 * Rows of jobs carry the first payload. A call that runs the functions of before the migration to this would hand such a job
 * over without its payload, or push into one without noting in its row that it has others. So the functions first learn to
 * read such rows, and write them once no transaction of before is left. One that idles may call the function of before, too:
 * its session learns of a new one only with the next lock that it takes.
 */

/** ms between looks at the transactions. */
const PAUSE = 50

/** Whether new jobs carry their payload; false in a schema without such rows. */
export async function carries(client: pg.ClientBase, schema: string): Promise<boolean> {
  const name = `${quoteIdentifier(schema)}.carries()`
  const { rows } = await client.query('SELECT to_regprocedure($1) IS NOT NULL AS known', [name])
  if (!rows[0].known) return false
  return (await client.query(`SELECT ${name} AS carries`)).rows[0].carries
}

/**
 * The transactions of other sessions in this database. Autovacuum, which runs as no user, pushes and claims nothing, and
 * neither does a replica. (Everyone sees the user of a session, but not everyone its type.)
 */
const RUNNING = `SELECT l.virtualxid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'virtualxid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
    AND a.datname = current_database() AND a.usesysid IS NOT NULL AND a.backend_type IS DISTINCT FROM 'walsender'`

/** Waits until all transactions that run now have ended, for `longest` ms. False if one goes on. */
export async function outlast(client: pg.ClientBase, longest: number): Promise<boolean> {
  const until = performance.now() + longest
  const running = async (): Promise<string[]> =>
    (await client.query(RUNNING)).rows.map(({ virtualxid }) => virtualxid)
  let before = new Set(await running())
  while (before.size > 0 && performance.now() < until) {
    await sleep(PAUSE)
    before = new Set((await running()).filter((one) => before.has(one)))
  }
  return before.size === 0
}

/** Notes whether the schema is new, for those who run the SQL by themselves. */
export function noteIfNew(schema: string): string {
  return `select set_config('lockstep.new_schema', case when to_regclass('${quoteIdentifier(schema)}.jobs') is null then '${schema}' else '' end, false)`
}

/** A new schema carries, and one that jobs of before are in goes on without until `migrate` finds that it may. */
export async function carryingAsFound(schema: string): Promise<string> {
  const define = async (carries: boolean) =>
    `execute $text$${await carryingDefinition(schema, carries)}$text$;`
  return `do $found$ begin
if current_setting('lockstep.new_schema', true) = '${schema}' then
${await define(true)}
elsif to_regprocedure('${quoteIdentifier(schema)}.carries()') is null then
${await define(false)}
end if;
end $found$;`
}
