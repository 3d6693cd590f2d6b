// Real events of a Dutch municipality's permit office, applied exactly once and in time order.
//
//   lockstep migrate
//   lockstep enqueue receipts --csv receipt.csv --id case:concept:name --score time:timestamp
//   lockstep work -r docs/examples/receipts/queues.ts --drain
//   psql -c 'SELECT * FROM receipt_events ORDER BY case_id, position'

import { defineQueue, type TransactionalContext } from 'pg-lockstep'

/** A row of the file, its columns as they are named there. */
export interface ReceiptEvent {
  readonly 'case:concept:name': string
  readonly 'concept:name': string
  readonly 'time:timestamp': string
}

export const receipts = defineQueue<ReceiptEvent>('receipts', {
  transactional: true,
  batchSize: 20,

  /** Each id is a case, its payloads the events that have piled up, earliest first. */
  async perform(batch, { tx }) {
    await createTable(tx)
    for (const [caseId, events] of batch) await append(tx, caseId, events)
  },
})

type Transaction = TransactionalContext['tx']

/** Nobody else works on the case, so the number of its rows is the next position, without a lock. */
async function append(tx: Transaction, caseId: string, events: readonly ReceiptEvent[]): Promise<void> {
  await tx.query(
    `INSERT INTO receipt_events (case_id, position, activity, at)
     SELECT $1, before.count + e.place, e.activity, e.at
     FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS e (activity, at, place),
       (SELECT count(*) FROM receipt_events WHERE case_id = $1) AS before`,
    [caseId, events.map((event) => event['concept:name']), events.map((event) => event['time:timestamp'])],
  )
}

/** Made by whoever comes first: two CREATE TABLE IF NOT EXISTS at the same moment would collide. */
async function createTable(tx: Transaction): Promise<void> {
  const { rows } = await tx.query("SELECT to_regclass('receipt_events') IS NOT NULL AS made")
  if (rows[0].made) return
  await tx.query("SELECT pg_advisory_xact_lock(hashtextextended('receipt_events', 0))")
  await tx.query(
    `CREATE TABLE IF NOT EXISTS receipt_events (
       case_id text, position integer, activity text NOT NULL, at timestamptz NOT NULL,
       PRIMARY KEY (case_id, position)
     )`,
  )
}
