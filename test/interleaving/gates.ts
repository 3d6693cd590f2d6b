import type { StoreEnvironment } from '../support/store-environment.ts'
import { endOfConditions, type Statement, statementsOf } from './statements.ts'

/** The functions that move rows, and those that lock rows for them. */
const PROTOCOL = [
  'enqueue',
  'enqueue_many',
  'put_jobs',
  'claim',
  'wait_for',
  'is_gone',
  'remove_silent',
  'lock_claims',
  'complete',
  'fail_claims',
  'discard',
  'bury_failed',
  'release',
  'lock_waiting',
  'delete_jobs',
  'kill',
  'perform_now',
  'requeue',
  'rehome',
  'remove_expired',
]

/**
 * A statement that calls one of these functions stops inside it. Of the others, only those that read or write a table
 * matter.
 */
const READS_OR_WRITES = /lockstep"?\.(jobs|payloads(_below)?|taken_of|morgue|processes|queues|unsettled)\b/
/** Last statements that only say when there will be work: a hint that nothing relies on. */
const HINTS = ['enqueue_many 2', 'claim 7', 'requeue 6']

/** Announces its place. Then the holder of the session's next key must release that key. */
const GATE = `
  -- Costly, so that it is asked after the other conditions on a row.
  CREATE FUNCTION lockstep.gate(_place text) RETURNS boolean LANGUAGE plpgsql COST 1000000 AS $$
  DECLARE
    _key bigint := nullif(current_setting('test.key', true), '');
    _asked text := statement_timestamp();
  BEGIN
    IF _key IS NULL THEN
      RETURN true;
    END IF;
    -- Before the first statement that the client's calls, it was held before it asked.
    IF current_setting('test.asked', true) IS DISTINCT FROM _asked THEN
      PERFORM set_config('test.asked', _asked, false);
      IF _place NOT LIKE '% locks' THEN
        RETURN true;
      END IF;
    END IF;
    PERFORM set_config('test.key', (_key + 1)::text, false);
    RAISE NOTICE 'gate: %', _place;
    PERFORM pg_advisory_lock(_key), pg_advisory_unlock(_key);
    RETURN true;
  END $$;
  CREATE FUNCTION lockstep.waiting(_pids integer[]) RETURNS integer LANGUAGE plpgsql AS $$
  BEGIN
    RETURN (SELECT count(DISTINCT pid) FROM pg_locks
            WHERE NOT granted AND locktype IN ('transactionid', 'tuple') AND pid = ANY (_pids));
  END $$`

/**
 * Puts a gate before each statement of the protocol that reads or writes rows. Each statement that locks rows gets
 * another gate, between its snapshot and its locks. Under READ COMMITTED, other sessions can come in between only at
 * these places. Sessions that did not ask to be stopped pass through. Returns the names of the gates.
 */
export async function installGates(env: StoreEnvironment): Promise<string[]> {
  await env.query(GATE)
  const gates: string[] = []
  for (const name of PROTOCOL) {
    const [row] = await env.query<{ text: string; body: string }>(
      `SELECT pg_get_functiondef(oid) AS text, prosrc AS body FROM pg_proc
       WHERE pronamespace = 'lockstep'::regnamespace AND proname = $1
         AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql')`,
      [name],
    )
    const gated = gatedBody(name, row!.body, gates)
    await env.query(row!.text.replace(row!.body, () => gated))
  }
  return gates
}

function gatedBody(name: string, body: string, gates: string[]): string {
  let [gated, end, count] = ['', 0, 0]
  for (const statement of statementsOf(body)) {
    gated += body.slice(end, statement.from)
    end = statement.to
    const matters = READS_OR_WRITES.test(statement.text)
    if (matters) count += 1
    const place = `${name} ${count}`
    gated += matters && !HINTS.includes(place) ? gatedStatement(place, statement, gates) : statement.text
  }
  return gated + body.slice(end)
}

function gatedStatement(name: string, { text }: Statement, gates: string[]): string {
  gates.push(name)
  const locking = gatedLocks(name, text)
  if (locking) gates.push(`${name} locks`)
  return `PERFORM lockstep.gate('${name}'); ${locking ?? text}`
}

/** The gate does not depend on a row, so it is asked once, before the first row is examined. */
function gatedLocks(name: string, text: string): string | undefined {
  const place = endOfConditions(text)
  if (place === undefined) return undefined
  return `${text.slice(0, place)} AND (SELECT lockstep.gate('${name} locks')) ${text.slice(place)}`
}

/** Adds the same gates to a statement of the store itself. A renewal stops when it has seen its row. */
export function gatedQuery(name: string, text: string): string {
  if (text.includes('SET renewal'))
    return text.replace('RETURNING', `AND lockstep.gate('${name} locks') RETURNING`)
  return gatedLocks(name, text) ?? text
}
