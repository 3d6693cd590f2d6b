// What an application in TypeScript does with the package, and what the compiler must refuse. Compiled by check-package.mjs
// against the packed declarations, with several versions of TypeScript; never run.
import {
  type Batch,
  type ClientMiddleware,
  clientMiddlewareFor,
  Discard,
  defineQueue,
  isFor,
  Lockstep,
  type Queue,
  Snooze,
  type StandardSchema,
} from 'pg-lockstep'
import { transactionsOf } from 'pg-lockstep/drizzle'
import { lockstepApi } from 'pg-lockstep/http'
import { otel } from 'pg-lockstep/otel'
import { prometheus } from 'pg-lockstep/prometheus'
import { assertEnqueued, createContext, drain, enqueued } from 'pg-lockstep/testing'
import { lockstepWeb } from 'pg-lockstep/web'

interface Placed {
  readonly status: 'created' | 'paid'
  readonly at: Date
  readonly note?: string
}

declare const lockstep: Lockstep
type Equal<One, Other> =
  (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : false
function same<One, Other>(..._: Equal<One, Other> extends true ? [] : ['these types differ']): void {}

const orders = defineQueue<Placed>('orders', {
  maxRetryCount: ({ payloads }) => payloads[0]!.at.length,
  timeout: ({ headers }) => (headers.at(-1)?.urgent ? 1_000 : undefined),
  retryIn: (retryCount, error, { payloads }) => (error instanceof Snooze ? payloads.length : retryCount),
  onDeath: ({ payload }) => payload?.status.toUpperCase(),
  perform(batch, context) {
    for (const [id, payloads] of batch) {
      same<typeof id, string>()
      const { status, at, note } = payloads.at(-1)!
      same<typeof status, 'created' | 'paid'>()
      // JSON has no dates.
      same<typeof at, string>()
      same<typeof note, string | undefined>()
      context.fail(id, new Discard('no'))
    }
    // @ts-expect-error: only a transactional queue has a transaction
    context.tx
  },
})
const anyQueue: Queue = orders

// What is pushed
await lockstep.enqueue(orders, { id: 'a', payload: { status: 'paid', at: new Date() } })
await lockstep.enqueue(orders, [
  { id: 1, payload: { status: 'paid', at: new Date(), note: 'x' }, score: new Date() },
])
// @ts-expect-error: another status
await lockstep.enqueue(orders, { id: 'a', payload: { status: 'sent', at: new Date() } })
// @ts-expect-error: a field is missing
await lockstep.enqueue(orders, { id: 'a', payload: { status: 'paid' } })
// @ts-expect-error: no fields at all
await lockstep.enqueue(orders, { id: 'a', payload: {} })
// @ts-expect-error: the payload is required
await lockstep.enqueue(orders, { id: 'a' })
// @ts-expect-error: a list of which one is wrong
await lockstep.enqueue(orders, [
  { id: 'a', payload: { status: 'paid', at: new Date() } },
  { id: 'b', payload: 7 },
])
// @ts-expect-error: a misspelt field
await lockstep.enqueue(orders, { id: 'a', payload: { status: 'paid', at: new Date() }, scores: 1 })
// @ts-expect-error: no id
await lockstep.enqueue(orders, { payload: { status: 'paid', at: new Date() } })
await lockstep.enqueue(anyQueue, { id: 'a' })
await lockstep.enqueue(defineQueue('plain'), [{ id: 'a' }, { id: 'b', payload: 7 }])
await lockstep.enqueue(defineQueue<string>('texts'), { id: 'a' })

// What is found
const { items } = await lockstep.find(orders, { ids: ['a'] })
same<(typeof items)[0]['payloads'][0]['payload']['at'], string>()
const dead = await lockstep.findDead(orders)
same<(typeof dead)['items'][0]['payload']['status'], 'created' | 'paid'>()
const byName = await lockstep.find('orders')
same<(typeof byName)['items'][0]['payloads'][0]['payload'], unknown>()
// @ts-expect-error: not JSON's type
items[0]!.payloads[0]!.payload.at.getTime()

// Transactions
defineQueue<Placed>('transactional', {
  transactional: true,
  async perform(batch, { tx }) {
    await tx.query('SELECT $1', [batch.size])
    // @ts-expect-error: no such method
    tx.execute('SELECT 1')
  },
})
interface Tx {
  execute(query: string): Promise<{ rows: unknown[] }>
}
declare const db: {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: { deferrable: boolean }): Promise<T>
}
const inferred = defineQueue('inferred', {
  transactional: transactionsOf(db),
  async perform(batch: Batch<{ amount: number }>, { tx }) {
    await tx.execute(`SELECT ${batch.get('a')!.at(-1)!.amount}`)
    // @ts-expect-error: of another library
    tx.query('SELECT 1')
  },
})
await lockstep.enqueue(inferred, { id: 'a', payload: { amount: 1 } })
// @ts-expect-error: not the type at the handler
await lockstep.enqueue(inferred, { id: 'a', payload: { amount: '1' } })
const plain = defineQueue('plain', { perform(_batch: Batch<number>) {} })
// @ts-expect-error: not the type at the handler
await lockstep.enqueue(plain, { id: 'a', payload: '1' })
// @ts-expect-error: a misspelt option
defineQueue<Placed>('misspelt', { maxRetries: 3 })
// @ts-expect-error: the handler's payloads have no such field
defineQueue<Placed>('wrong', { perform: (batch) => batch.get('a')!.at(-1)!.total })

// A schema
declare const Shipped: StandardSchema<{ at: string }, { at: Date }>
const shipped = defineQueue('shipped', {
  schema: Shipped,
  perform: (batch) => batch.get('a')!.at(-1)!.at.getTime(),
})
await lockstep.enqueue(shipped, { id: 'a', payload: { at: '2026-01-01' } })
// @ts-expect-error: what the schema makes is not what it takes
await lockstep.enqueue(shipped, { id: 'a', payload: { at: new Date() } })
const named: ClientMiddleware = (call, next) =>
  next(isFor(shipped, call) ? call.jobs.filter(({ payload }) => payload.at !== '') : call.jobs)
lockstep.createWorker({ queues: [shipped] })

// What a middleware passes on
const forAll: ClientMiddleware = (call, next) => next([...call.jobs, { id: 'b', payload: 7 }, { id: 'c' }])
const forShipped = clientMiddlewareFor(shipped, (call, next) => {
  for (const { payload } of call.jobs) same<typeof payload, { at: string }>()
  return next([...call.jobs, { id: 'b', payload: { at: '2026-01-01' }, lane: 1 }])
})
const forOrders: ClientMiddleware<Placed> = (call, next) =>
  next(call.jobs.map((job) => ({ ...job, payload: { ...job.payload, note: 'x' } })))
// @ts-expect-error: what the schema makes is not what it takes
clientMiddlewareFor(shipped, (_call, next) => next([{ id: 'b', payload: { at: new Date() } }]))
clientMiddlewareFor(orders, (call, next) =>
  // @ts-expect-error: another status
  next(call.jobs.map((job) => ({ ...job, payload: { ...job.payload, status: 'sent' } }))),
)
clientMiddlewareFor(orders, async (call, next) => {
  // @ts-expect-error: a field is missing
  await next([...call.jobs, { id: 'b', payload: { status: 'paid' } }])
  // @ts-expect-error: the payload is required
  await next([{ id: 'b' }])
})
// @ts-expect-error: of another queue
clientMiddlewareFor(shipped, forOrders)
// @ts-expect-error: it would get the payloads of all queues
new Lockstep({ connectionString: '', middleware: [forOrders] })
new Lockstep({
  connectionString: '',
  middleware: [named, forAll, forShipped, clientMiddlewareFor(orders, forOrders)],
})

export { named }

// Tests
const { completed } = await drain(lockstep, [orders, inferred], { retries: true, future: true })
same<typeof completed, number>()
const waiting = await enqueued(lockstep, orders)
same<(typeof waiting)[0]['payload']['at'], string>()
await assertEnqueued(lockstep, orders, { payload: { status: 'paid' } }, { times: 1 })
// @ts-expect-error: a field that the payload does not have
await assertEnqueued(lockstep, orders, { payload: { state: 'paid' } })
const context = createContext(new Map([['a', [{ amount: 1 }]]]), {
  tx: { execute: async () => ({ rows: [] }) },
})
await inferred.perform!(new Map([['a', [{ amount: 1 }]]]), context as never)
// @ts-expect-error: not what JSON makes of the payload
await orders.perform!(new Map([['a', [{ status: 'paid', at: new Date() }]]]), context as never)

// Telemetry
const telemetry = prometheus({ prefix: 'jobs_' })
same<ReturnType<typeof telemetry.metrics>, Promise<string>>()
new Lockstep({ connectionString: '', instrumentation: [telemetry, otel({ continueTraces: true })] })
// @ts-expect-error: a misspelt option
otel({ continueTrace: true })

// Workers
const worker = lockstep.createWorker({ queues: [orders, inferred], slots: 2 })
worker.on('failed', ({ error, retryIn }) => console.error(error, retryIn ?? 'dead'))

// The web page
const web = lockstepWeb(lockstep, {
  authorize: (request, action) =>
    request.headers.get('x-user') !== null && (action === 'view' || { actor: 'me' }),
  redact: (payload, { queue }) => (queue === 'orders' ? undefined : payload),
})
same<Awaited<ReturnType<typeof web.fetch>>, Response>()

// The HTTP API
const api = lockstepApi(lockstep, { access: 'tokens' })
same<Awaited<ReturnType<typeof api.fetch>>, Response>()
const { fetch: fetchPage, node } = lockstepWeb(lockstep, {
  basicAuth: [{ username: 'me', password: 'secret', role: 'view' }],
})

export { fetchPage, node }

// @ts-expect-error: no such role
lockstepWeb(lockstep, { basicAuth: { username: 'me', password: 'secret', role: 'admin' } })
// @ts-expect-error: open or nothing
lockstepWeb(lockstep, { access: 'closed' })
