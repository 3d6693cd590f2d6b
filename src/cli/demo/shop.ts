import type pg from 'pg'

/** The schemas of the demo's queue and of the shop's own tables. The demo drops both when it ends. */
export const QUEUE_SCHEMA = 'lockstep_demo'
export const SHOP_SCHEMA = 'lockstep_demo_shop'

/**
 * Producers write `orders`, in the transaction that also sends; handlers keep `shipments` up to date. `applied` and
 * `setbacks` are for the judge: the updates in the order in which handlers got them, only ever appended to, and every
 * write that replaced a newer version by an older one. `jobs` is the naive pool's queue.
 */
const TABLES = `
  CREATE TABLE ${SHOP_SCHEMA}.orders (order_id text PRIMARY KEY, updates integer NOT NULL, newest integer NOT NULL);
  CREATE TABLE ${SHOP_SCHEMA}.shipments (order_id text PRIMARY KEY, version integer NOT NULL);
  CREATE TABLE ${SHOP_SCHEMA}.applied (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL, version integer NOT NULL,
    run text NOT NULL, taken_at double precision NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE ${SHOP_SCHEMA}.setbacks (order_id text NOT NULL, version integer NOT NULL, replaced integer NOT NULL);
  CREATE TABLE ${SHOP_SCHEMA}.jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE FUNCTION ${SHOP_SCHEMA}.note_setback() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO ${SHOP_SCHEMA}.setbacks VALUES (NEW.order_id, NEW.version, OLD.version);
    RETURN NULL;
  END
  $$;
  CREATE TRIGGER setback AFTER UPDATE ON ${SHOP_SCHEMA}.shipments FOR EACH ROW
    WHEN (NEW.version < OLD.version) EXECUTE FUNCTION ${SHOP_SCHEMA}.note_setback();
`

export async function createShop(client: pg.Client): Promise<void> {
  await client.query(TABLES)
}

/** ms since 1970 by the server's clock, as a number, so that times can be compared. */
export const millis = (time: string) => `(extract(epoch FROM ${time}) * 1000)::float8`
