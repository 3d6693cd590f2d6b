import express, { type ErrorRequestHandler, type Express } from 'express'
import type { Pool } from 'pg'
import type { Lockstep } from 'pg-lockstep'
import { readChange } from './change.ts'
import { changeOrder, findOrder } from './orders.ts'
import { inTransaction } from './transaction.ts'

export interface Services {
  readonly pool: Pool
  readonly lockstep: Lockstep
}

export function createApp({ pool, lockstep }: Services): Express {
  const app = express()
  app.use(express.json())

  app.post('/orders', async (request, response) => {
    const { id, ...change } = readChange(request.body)
    await inTransaction(pool, (tx) => changeOrder(tx, lockstep, id, change))
    response.status(202).json({ id, version: change.version })
  })

  app.get('/orders/:id', async (request, response) => {
    const order = await findOrder(pool, request.params.id)
    if (order) response.json(order)
    else response.status(404).json({ error: 'there is no such order' })
  })

  app.get('/health', async (_request, response) => {
    try {
      await pool.query('SELECT')
      response.json({ status: 'ok' })
    } catch (error) {
      console.error('the database does not answer:', error)
      response.status(503).json({ status: 'the database does not answer' })
    }
  })

  app.use(answerWithError)
  return app
}

/** Only what the sender of the request can correct is told; the rest goes to the log. */
const answerWithError: ErrorRequestHandler = (error, _request, response, next) => {
  if (response.headersSent) return next(error)
  if (error.status < 500) return void response.status(error.status).json({ error: error.message })
  console.error(error)
  response.status(500).json({ error: 'something went wrong' })
}
