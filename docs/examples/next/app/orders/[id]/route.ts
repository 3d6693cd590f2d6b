import { findOrder } from '../../../lib/orders.ts'
import { services } from '../../../lib/services.ts'

interface Context {
  readonly params: Promise<{ id: string }>
}

export async function GET(_request: Request, { params }: Context): Promise<Response> {
  const { id } = await params
  const order = await findOrder(services().pool, id)
  return order ? Response.json(order) : Response.json({ error: 'there is no such order' }, { status: 404 })
}
