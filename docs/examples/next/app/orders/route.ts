import { BadRequest, readChange } from '../../lib/change.ts'
import { changeOrder } from '../../lib/orders.ts'
import { services } from '../../lib/services.ts'
import { inTransaction } from '../../lib/transaction.ts'

/** Stores the change of an order and pushes its job in one transaction; the worker performs it later. */
export async function POST(request: Request): Promise<Response> {
  const { pool, lockstep } = services()
  try {
    const { id, ...change } = readChange(await request.json().catch(() => undefined))
    await inTransaction(pool, (tx) => changeOrder(tx, lockstep, id, change))
    return Response.json({ id, version: change.version }, { status: 202 })
  } catch (error) {
    if (error instanceof BadRequest) return Response.json({ error: error.message }, { status: error.status })
    throw error
  }
}
