import type pg from 'pg'

/** Where the demo's queue is, and where the shop's own tables are. Both are dropped when it ends. */
export const QUEUE_SCHEMA = 'lockstep_demo'
export const SHOP_SCHEMA = 'lockstep_demo_shop'

/**
 * `orders` is what producers write, in the transaction that also sends; `shipments` is what handlers keep up to
 * date. `applied` and `setbacks` are there for the judge: what was handed over in which order, by no more than
 * an append, and every write that replaced a newer version by an older one. `jobs` is the naive pool's queue.
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

/** ms since 1970 by the server's clock, as a number: for times that are compared with each other. */
export const millis = (time: string) => `(extract(epoch FROM ${time}) * 1000)::float8`
