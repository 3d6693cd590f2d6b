import type { StoreEnvironment } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'
import { ID, type Scene } from './scenes.ts'

/**
 * Everything about the scene's job, as text; equal states have equal texts. A time becomes the way in which it was
 * given (past, now, later). Fences and rows of equal payloads are left out: rounds consist of them, but mean the same
 * if they differ in them.
 */
export async function stateOf({ testQueue, claimers }: Scene): Promise<string> {
  const named = Object.entries(claimers)
  const [row] = await testQueue.env.query<{ state: string }>(
    'SELECT lockstep.state_of($1, $2, $3, $4) AS state',
    [testQueue.queueId, ID, named.map(([, { processId }]) => processId), named.map(([name]) => name)],
  )
  return row!.state
}

/** Installed as a function, so that it is planned once and not in each of thousands of schedules. */
export async function installState(env: StoreEnvironment): Promise<void> {
  await env.query(`
    CREATE FUNCTION lockstep.state_of(_queue_id integer, _id text, _processes integer[], _names text[])
    RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
    BEGIN
      RETURN (${STATE});
    END $$`)
}

function moment(column: string): string {
  return `CASE WHEN ${column} < '2020-01-01' THEN 'past' WHEN ${column} < clock_timestamp() THEN 'now'
    WHEN ${column} > clock_timestamp() THEN 'later' END`
}

function set(condition: string): string {
  return `(SELECT coalesce(string_agg(f.name, ' ' ORDER BY f.score, f.seq), 'none') FROM (
    SELECT DISTINCT ON (p.digest) (p.payload #>> '{}') || '[' || p.score || ']' AS name, p.score, p.seq
    FROM ${storedPayloads()} p WHERE p.queue_id = _queue_id AND p.job_id = _id AND ${condition}
    ORDER BY p.digest, p.score, p.seq) f)`
}

/** The last failed attempts of a row, without their times. */
function attempts(row: string): string {
  return `(SELECT 'tried ' || string_agg(concat_ws(' ', a.one ->> 'kind', a.one ->> 'retry_count', a.one ->> 'error'), ', ' ORDER BY a.place)
    FROM jsonb_array_elements(lockstep.shown_attempts(${row}.attempts, ${row}.error)) WITH ORDINALITY AS a(one, place))`
}

const STATE = `
  SELECT concat_ws('; ',
    coalesce((SELECT concat_ws(', ',
      CASE WHEN j.claimed_by IS NULL THEN 'waits ' || ${set('true')}
        ELSE 'in work by ' || coalesce(_names[array_position(_processes, j.claimed_by)], '?')
          || ' ' || ${set('p.fence < j.fence')} || ' then ' || ${set('p.fence >= j.fence')} END,
      'due ' || ${moment('j.perform_in')}, 'next ' || ${moment('j.next_perform_in')},
      'shard ' || j.shard, 'retry ' || j.retry_count, 'crashes ' || j.crashes, 'error ' || j.error,
      ${attempts('j')}
    ) FROM lockstep.jobs j WHERE j.queue_id = _queue_id AND j.id = _id), 'no job'),
    (SELECT 'dead ' || string_agg((m.payload #>> '{}') || '[' || m.score || '] ' || concat_ws(' ', m.error, ${attempts('m')}), ' ' ORDER BY m.score)
      FROM lockstep.morgue m WHERE m.queue_id = _queue_id),
    (SELECT 'beside it ' || string_agg(p.job_id || ' ' || (p.payload #>> '{}'), ' ' ORDER BY p.job_id, p.score)
      FROM ${storedPayloads()} p WHERE p.queue_id = _queue_id AND p.job_id <> _id),
    (SELECT 'WRONG: payloads without a job' FROM lockstep.payloads p LEFT JOIN lockstep.jobs j
       ON j.queue_id = p.queue_id AND j.id = p.job_id WHERE p.queue_id = _queue_id AND j.id IS NULL LIMIT 1),
    (SELECT 'WRONG: a job without payloads' FROM lockstep.jobs j WHERE j.queue_id = _queue_id AND j.payload IS NULL
       AND NOT EXISTS (SELECT FROM lockstep.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id)),
    (SELECT 'WRONG: payloads that the job does not know of' FROM lockstep.jobs j JOIN lockstep.payloads p
       ON p.queue_id = j.queue_id AND p.job_id = j.id WHERE j.queue_id = _queue_id AND NOT j.has_payloads LIMIT 1),
    (SELECT 'WRONG: payloads above the fence' FROM lockstep.jobs j JOIN lockstep.payloads p
       ON p.queue_id = j.queue_id AND p.job_id = j.id AND p.fence > j.fence WHERE j.queue_id = _queue_id LIMIT 1),
    (SELECT 'WRONG: a next round without payloads, or payloads without one' FROM lockstep.jobs j
       WHERE j.queue_id = _queue_id AND j.claimed_by IS NOT NULL AND (j.next_perform_in IS NOT NULL) <> EXISTS (
         SELECT FROM lockstep.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id AND p.fence >= j.fence))
  ) AS state`
