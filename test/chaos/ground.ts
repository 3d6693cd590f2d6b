import type { Field } from './field.ts'

/** Parts of statements fail while the disk is full; the trigger stands behind the product's own work, so all undo. */
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

/** The schema, the queues, and what the field writes beside them. */
export async function prepareGround(field: Field): Promise<void> {
  await field.lockstep.migrate()
  for (const { name, shards } of Object.values(field.queues)) {
    await field.sql('SELECT lockstep.create_queue($1, $2)', [name, shards])
  }
  await field.sql(DOMAIN)
  await field.sql(FULL_DISK)
  await shrinkNotifyQueue(field)
}

/** Its usual size, 8 GB, is more than a test wants to fill; before Postgres 17 it can't be told. */
async function shrinkNotifyQueue(field: Field): Promise<void> {
  const [row] = await field.sql<{ known: boolean }>(
    `SELECT current_setting('max_notify_queue_pages', true) IS NOT NULL AS known`,
  )
  if (!row!.known) return
  await field.sql('ALTER SYSTEM SET max_notify_queue_pages = 64')
  await field.server.restart()
  field.smallNotifyQueue = true
}
