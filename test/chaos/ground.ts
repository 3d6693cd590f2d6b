import type { Cluster } from './cluster.ts'
import { TENANTED } from './queues.ts'

/** A role with the cluster's password. */
export const POOLED = 'pooled'

/**
 * While the disk is full, some statements fail. The trigger runs after the product's own work, so all of that is
 * undone.
 */
const FULL_DISK = `
  CREATE TABLE disk (is_full boolean NOT NULL);
  INSERT INTO disk VALUES (false);
  CREATE FUNCTION fill_disk() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF (SELECT is_full FROM public.disk) AND random() < 0.3 THEN
      RAISE EXCEPTION 'could not extend file "base/5/16384": No space left on device' USING ERRCODE = '53100';
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER fill_disk AFTER INSERT OR UPDATE OR DELETE ON lockstep.jobs EXECUTE FUNCTION fill_disk();
  CREATE TRIGGER fill_disk AFTER INSERT OR UPDATE OR DELETE ON lockstep.payloads EXECUTE FUNCTION fill_disk();
`

/** What the producers and the transactional handlers write beside the queue. */
const DOMAIN = `
  CREATE TABLE sent (queue text, id text, n bigint, at bigint, PRIMARY KEY (queue, id, n));
  CREATE TABLE applied (position bigserial, id text, n bigint, fence bigint);
`

/** Until a given time, a deferred constraint refuses at COMMIT what is applied of an id. */
const REFUSAL = `
  CREATE TABLE refused (id text PRIMARY KEY, until timestamptz NOT NULL);
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF EXISTS (SELECT FROM public.refused r WHERE r.id = NEW.id AND r.until > clock_timestamp()) THEN
      RAISE EXCEPTION 'refused for now' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON applied DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse();
`

/** Its sessions have another isolation level than the queue's. An application and a worker share them behind a pooler. */
function pooledUser({ server }: Cluster): string {
  const { password } = new URL(server.connectionString)
  return `
    CREATE ROLE ${POOLED} SUPERUSER LOGIN PASSWORD '${password}';
    ALTER ROLE ${POOLED} SET default_transaction_isolation = 'serializable';
  `
}

/** Writes down every claim of a queue whose jobs have tenants. What is rolled back was no claim. */
async function noteClaims(cluster: Cluster): Promise<string> {
  const rows = await cluster.sql<{ number: number }>(
    'SELECT queue_id AS number FROM lockstep.queues WHERE name = ANY ($1)',
    [TENANTED],
  )
  return `
    CREATE TABLE claims (queue_id integer, id text, tenant text, lane smallint, fence bigint, at timestamptz);
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO public.claims VALUES (NEW.queue_id, NEW.id, NEW.tenant, NEW.lane, NEW.fence, NEW.claimed_at);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_claim AFTER UPDATE ON lockstep.jobs FOR EACH ROW
      WHEN (NEW.queue_id IN (${rows.map(({ number }) => number)}) AND NEW.claimed_by IS NOT NULL AND NEW.fence > OLD.fence)
      EXECUTE FUNCTION note_claim();
  `
}

/** Creates the schema, the queues, and what the cluster writes beside them. */
export async function prepareGround(cluster: Cluster): Promise<void> {
  await cluster.lockstep.migrate()
  for (const { name, shards } of Object.values(cluster.queues)) {
    await cluster.sql('SELECT lockstep.create_queue($1, $2)', [name, shards])
  }
  await cluster.sql(DOMAIN)
  await cluster.sql(REFUSAL)
  await cluster.sql(pooledUser(cluster))
  await cluster.sql(await noteClaims(cluster))
  await cluster.sql(FULL_DISK)
  await shrinkNotifyQueue(cluster)
}

/** Its usual size, 8 GB, is too large to fill in a test; before Postgres 17 it can't be set. */
async function shrinkNotifyQueue(cluster: Cluster): Promise<void> {
  const [row] = await cluster.sql<{ known: boolean }>(
    `SELECT current_setting('max_notify_queue_pages', true) IS NOT NULL AS known`,
  )
  if (!row!.known) return
  await cluster.sql('ALTER SYSTEM SET max_notify_queue_pages = 64')
  await cluster.server.restart()
  cluster.smallNotifyQueue = true
}
