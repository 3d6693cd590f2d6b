import type { FastifyInstance } from 'fastify'
import type { Pool } from 'pg'
import type { Lockstep } from 'pg-lockstep'
import { changeOrder, findOrder } from './orders.ts'
import type { OrderChange } from './queues.ts'
import { inTransaction } from './transaction.ts'

export interface Services {
  readonly pool: Pool
  readonly lockstep: Lockstep
}

const CHANGE = {
  type: 'object',
  required: ['id', 'version', 'status'],
  properties: {
    id: { type: 'string', minLength: 1, maxLength: 100 },
    version: { type: 'integer', minimum: 1, maximum: 2_147_483_647 },
    status: { type: 'string', minLength: 1, maxLength: 100 },
  },
}

export async function routes(app: FastifyInstance, { pool, lockstep }: Services): Promise<void> {
  app.post<{ Body: OrderChange & { id: string } }>(
    '/orders',
    { schema: { body: CHANGE } },
    async (request, reply) => {
      const { id, version, status } = request.body
      await inTransaction(pool, (tx) => changeOrder(tx, lockstep, id, { version, status }))
      return reply.code(202).send({ id, version })
    },
  )

  app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
    const order = await findOrder(pool, request.params.id)
    return order ?? reply.code(404).send({ error: 'there is no such order' })
  })

  app.get('/health', async (request, reply) => {
    try {
      await pool.query('SELECT')
      return { status: 'ok' }
    } catch (error) {
      request.log.error(error, 'the database does not answer')
      return reply.code(503).send({ status: 'the database does not answer' })
    }
  })
}
