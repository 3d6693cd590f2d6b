import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Batch,
  defineQueue,
  type Fairness,
  type Limits,
  type PerformContext,
  type Queue,
  type TransactionalContext,
} from '../../src/index.ts'

/**
 * The payload `n` of an id is the n-th that its only producer has pushed, and also its score. Some have an additional
 * load.
 */
export type Numbered = number | { readonly n: number; readonly load: string }

/** What a handler does for a round. The log of handlers is written around it. */
export type Work = (batch: Batch<number>, context: PerformContext) => Promise<void>

export interface FieldQueues {
  /** One id at a time. */
  readonly plain: Queue<Numbered>
  /** Several ids at a time, and not everything that has piled up. */
  readonly batched: Queue<Numbered>
  /** Exactly once: what handlers got is in the table `applied`. */
  readonly exact: Queue<Numbered>
  /** Tenants take turns. */
  readonly shared: Queue<Numbered>
  /** Tenants that push much go to other lanes. */
  readonly ruled: Queue<Numbered>
  /** Keeps to limits, its own and those of tenants, which share its lanes. */
  readonly limited: Queue<Numbered>
  /** Its jobs kill their process. */
  readonly poison: Queue<Numbered>
}

/** Queues whose jobs have tenants. */
export const TENANTED = ['shared', 'ruled', 'limited'] as const
/** Queues that do whatever is due as fast as they can. */
export const UNLIMITED = ['plain', 'batched', 'exact', 'shared', 'ruled'] as const
/** The queues that producers fill. */
export const FILLED = [...UNLIMITED, 'limited'] as const
export type Filled = (typeof FILLED)[number]
export const SHARDS = 6
export const POISON_CRASHES = 2

/**
 * Fewer at once than the slots of three workers. The rates are somewhat above what producers push all the time, so they are
 * reached when something has piled up.
 */
const LIMITS: Limits = {
  concurrency: 5,
  rate: { jobs: 30, per: 0.5 },
  tenant: { concurrency: 2, rate: { jobs: 15, per: 0.5 } },
}
const RULES: Fairness['rules'] = [
  { over: 5, per: 1, lane: 1 },
  { over: 40, per: 10, lane: 2 },
]
/** Of ids that end in a number. One tenant has more of them than others. */
const TENANTS = [null, 'a', 'b', 'c', 'c']
/** The tenant that now and then pushes far more than all others. */
export const FLOODING = 'flood'

/** Whose the jobs of an id are. Nobody's are those that faults push by one id: some of them are kept waiting on purpose. */
export function tenantOf(id: string): string | null {
  if (id.startsWith(FLOODING)) return FLOODING
  const number = id.match(/-(\d+)$/)?.[1]
  return number === undefined ? null : TENANTS[Number(number) % TENANTS.length]!
}

const LONGEST_WORK = 4
const FAILING = 0.01
const retryIn = () => 0.05
const tenanted = {
  shards: SHARDS,
  retryIn,
  tenant: ({ id }: { readonly id: string | number | bigint }) => tenantOf(String(id)),
}

/** The queues, with handlers wrapped by `around`. */
export function clusterQueues(around: (queue: string, work: Work) => Work = (_, work) => work): FieldQueues {
  return {
    plain: defineQueue<Numbered>('plain', {
      shards: SHARDS,
      retryIn,
      perform: unloaded(around('plain', work)),
    }),
    batched: defineQueue<Numbered>('batched', {
      shards: SHARDS,
      batchSize: 8,
      maxPayloads: 5,
      retryIn,
      perform: unloaded(around('batched', workSomeFail)),
    }),
    exact: defineQueue<Numbered>('exact', {
      shards: SHARDS,
      batchSize: 4,
      // Also ends a statement of the handler that is never answered.
      timeout: 10_000,
      retryIn,
      transactional: true,
      perform: unloaded(around('exact', apply as Work)),
    }),
    shared: defineQueue<Numbered>('shared', {
      ...tenanted,
      batchSize: 3,
      perform: unloaded(around('shared', work)),
    }),
    ruled: defineQueue<Numbered>('ruled', {
      ...tenanted,
      fairness: { window: 60, rules: RULES },
      perform: unloaded(around('ruled', work)),
    }),
    limited: defineQueue<Numbered>('limited', {
      ...tenanted,
      batchSize: 2,
      fairness: { window: 60, rules: [{ over: 40, per: 10, lane: 1 }] },
      limits: LIMITS,
      perform: unloaded(around('limited', work)),
    }),
    poison: defineQueue<Numbered>('poison', {
      shards: 1,
      maxCrashes: POISON_CRASHES,
      maxRetryCount: 0,
      perform: unloaded(around('poison', async () => void process.kill(process.pid, 'SIGKILL'))),
    }),
  }
}

/** Handlers work only with the numbers. */
function unloaded(work: Work): (batch: Batch<Numbered>, context: PerformContext) => Promise<void> {
  const numberOf = (payload: Numbered) => (typeof payload === 'number' ? payload : payload.n)
  return (batch, context) => {
    const numbers = [...batch].map(([id, payloads]) => [id, payloads.map(numberOf)] as const)
    return work(new Map(numbers), context)
  }
}

/** Ends on its signal, and fails now and then. */
async function work(_: Batch<number>, { signal }: PerformContext): Promise<void> {
  await sleep(Math.random() * LONGEST_WORK, undefined, { signal })
  if (Math.random() < FAILING) throw new Error('failed as it does now and then')
}

async function workSomeFail(batch: Batch<number>, context: PerformContext): Promise<void> {
  await work(batch, context)
  for (const id of batch.keys()) if (Math.random() < FAILING) context.fail(id, new Error('this one failed'))
}

/** In `applied`, the positions give the order, and the fences the rounds that wrote the rows. */
async function apply(batch: Batch<number>, context: TransactionalContext): Promise<void> {
  await work(batch, context)
  const rows = [...batch].flatMap(([id, numbers]) => {
    const { fence } = context.jobs.get(id)!
    return numbers.map((n) => ({ id, n, fence }))
  })
  await context.tx.query(
    'INSERT INTO applied (id, n, fence) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[])',
    [rows.map(({ id }) => id), rows.map(({ n }) => n), rows.map(({ fence }) => fence)],
  )
}
