import pg from 'pg'
import { expect } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { eventually } from '../support/worker-environment.ts'

/** Sends a change of an order to an example's server. */
export async function postOrder(url: string, change: { id: string; version: number; status: string }) {
  const response = await fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(change),
  })
  expect(response.status).toBe(202)
  await response.body!.cancel()
}

/** Resolves once an order has the history that the worker writes. */
export function untilPerformed(url: string, { id, history }: { id: string; history: string[] }) {
  return eventually(async () => {
    const response = await fetch(`${url}/orders/${id}`)
    expect(await response.json()).toMatchObject({ id, history })
  })
}

/** What processes that have ended left in the database: sessions that stay, and workers that did not sign off. */
export async function processesLeft({ connectionString }: TestDatabase): Promise<unknown[]> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    // A session ends a moment after its process.
    await eventually(async () => {
      const { rows } = await client.query(
        'SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      )
      expect(rows).toEqual([])
    })
    return (await client.query('SELECT * FROM lockstep.process_list')).rows
  } finally {
    await client.end()
  }
}
