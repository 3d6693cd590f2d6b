import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { ClaimedJob } from '../../index.ts'
import { wasOnTimer } from './job.ts'
import { isJobId, timeOf } from './job-id.ts'
import type { Request } from './request.ts'

const JOBS = 'infra_lmstfy_redis'
const HTTP = 'infra_lmstfy_http'
const QUEUE = ['pool', 'namespace', 'queue'] as const
/** The label of all queues that are named by a job, to which the results of synchronous tasks go. No queue can be called so. */
const REPLIES = ':job_id'

type Queued = Pick<Request, 'pool' | 'namespace' | 'queue'>

/** What a pool has in a queue at this moment. */
export interface QueueSizes {
  readonly pool: string
  readonly namespace: string
  readonly queue: string
  readonly ready: number
  readonly delayed: number
  readonly dead: number
}

/** Metrics with lmstfy's names, so that its dashboards go on. Those of Redis itself have no match. */
export class Metrics {
  readonly registry = new Registry()
  readonly #published = this.#counter('publish_jobs', ['pool'])
  readonly #publishedIn = this.#counter('publish_queue_jobs', QUEUE)
  readonly #added = this.#counter('pool_add_jobs', ['pool'])
  readonly #pushed = this.#counter('queue_direct_push_jobs', ['pool'])
  readonly #scheduled = this.#counter('timer_add_jobs', ['pool'])
  readonly #due = this.#counter('timer_due_jobs', ['pool'])
  readonly #consumed = this.#counter('consume_jobs', ['pool'])
  readonly #consumedFromSeveral = this.#counter('consume_multi_jobs', ['pool'])
  readonly #popped = this.#counter('queue_pop_jobs', ['pool'])
  readonly #got = this.#counter('pool_get_jobs', ['pool'])
  readonly #consumedIn = this.#counter('consume_queue_jobs', QUEUE)
  readonly #deleted = this.#counter('pool_delete_jobs', ['pool'])
  readonly #respawned = this.#counter('deadletter_respawn_jobs', ['pool'])
  readonly #elapsed = this.#histogram('job_elapsed_ms')
  readonly #acknowledged = this.#histogram('job_ack_elapsed_ms')
  readonly #latency: Histogram<'pool' | 'namespace' | 'api' | 'method'>
  readonly #codes: Counter<'pool' | 'namespace' | 'api' | 'method' | 'code'>
  readonly #limited: Counter<'pool' | 'namespace' | 'token' | 'action'>
  /** As they were when the metrics were read last. */
  #queues = new Map<string, Queued>()

  /** `sizes` is asked when the metrics are read. */
  constructor(pools: Iterable<string>, sizes: () => Promise<readonly QueueSizes[]>) {
    const { registry } = this
    // No timer moves jobs here, so no batch of it is ever full. Alerts that are told nothing would complain.
    const full = this.#counter('timer_full_batches', ['pool'])
    for (const pool of pools) full.inc({ pool }, 0)
    const registers = [registry]
    this.#latency = new Histogram({
      name: `${HTTP}_latency_milliseconds`,
      help: 'rest api latencies',
      labelNames: ['pool', 'namespace', 'api', 'method'],
      buckets: exponential(15, 2.5, 9),
      registers,
    })
    this.#codes = new Counter({
      name: `${HTTP}_http_codes`,
      help: 'rest api response code',
      labelNames: ['pool', 'namespace', 'api', 'method', 'code'],
      registers,
    })
    this.#limited = new Counter({
      name: `${HTTP}_rate_limit`,
      help: 'consume/produce rate limit',
      labelNames: ['pool', 'namespace', 'token', 'action'],
      registers,
    })
    this.#addSizes(sizes)
  }

  published({ pool, namespace, queue }: Request, jobs: number, isDelayed: boolean): void {
    this.#published.inc({ pool }, jobs)
    this.#added.inc({ pool }, jobs)
    ;(isDelayed ? this.#scheduled : this.#pushed).inc({ pool }, jobs)
    this.#publishedIn.inc(labelsOf({ pool, namespace, queue }), jobs)
  }

  consumed({ pool, namespace, queue: asked }: Request, job: ClaimedJob): void {
    const { id, queue: full } = job
    const labels = labelsOf({ pool, namespace, queue: full.slice(namespace.length + 1) })
    ;(asked.includes(',') ? this.#consumedFromSeveral : this.#consumed).inc({ pool })
    this.#popped.inc({ pool })
    this.#got.inc({ pool })
    if (wasOnTimer(job)) this.#due.inc({ pool })
    this.#consumedIn.inc(labels)
    observe(this.#elapsed, labels, id)
  }

  acknowledged({ pool, namespace, queue, id }: Request): void {
    this.#deleted.inc({ pool })
    observe(this.#acknowledged, labelsOf({ pool, namespace, queue }), id)
  }

  respawned({ pool }: Request, jobs: number): void {
    this.#respawned.inc({ pool }, jobs)
  }

  /** `duration`: ms. */
  answered(
    labels: { pool: string; namespace: string; api: string; method: string },
    code: number,
    duration: number,
  ): void {
    if (code < 300) this.#latency.observe(labels, duration)
    this.#codes.inc({ ...labels, code })
  }

  limited(labels: { pool: string; namespace: string; token: string; action: string }): void {
    this.#limited.inc(labels)
  }

  #counter<Label extends string>(name: string, labelNames: readonly Label[]): Counter<Label> {
    return new Counter({
      name: `${JOBS}_${name}`,
      help: name,
      labelNames: [...labelNames],
      registers: [this.registry],
    })
  }

  #histogram(name: string): Histogram<(typeof QUEUE)[number]> {
    return new Histogram({
      name: `${JOBS}_${name}`,
      help: name,
      labelNames: [...QUEUE],
      buckets: exponential(15, 3.5, 7),
      registers: [this.registry],
    })
  }

  /** What was counted of queues that were deleted. Of a pool that can't be asked, nothing is known. */
  #forgetGone(all: readonly Queued[]): void {
    const now = new Map(all.map((queue) => [keyOf(queue), labelsOf(queue)]))
    const asked = new Set(all.map(({ pool }) => pool))
    for (const [key, labels] of this.#queues) {
      if (now.has(key)) continue
      if (asked.has(labels.pool)) this.#forget(labels)
      else now.set(key, labels)
    }
    this.#queues = now
  }

  #forget({ pool, namespace, queue }: Queued): void {
    for (const metric of [this.#publishedIn, this.#consumedIn, this.#elapsed, this.#acknowledged])
      metric.remove({ pool, namespace, queue })
  }

  #addSizes(sizes: () => Promise<readonly QueueSizes[]>): void {
    const read = async () => {
      const all = await sizes()
      this.#forgetGone(all)
      return all
    }
    const gauges = { queue_sizes: 'ready', timer_sizes: 'delayed', deadletter_sizes: 'dead' } as const
    for (const [name, size] of Object.entries(gauges)) {
      const gauge = new Gauge({
        name: `${JOBS}_${name}`,
        help: name,
        labelNames: [...QUEUE],
        registers: [this.registry],
        collect: async () => {
          const all = await read()
          gauge.reset()
          for (const { [size]: jobs, ...queue } of all) gauge.inc(labelsOf(queue), jobs)
        },
      })
    }
  }
}

function keyOf(queue: Queued): string {
  const { pool, namespace, queue: name } = labelsOf(queue)
  return `${pool} ${namespace} ${name}`
}

function labelsOf({ pool, namespace, queue }: Queued): Queued {
  return { pool, namespace, queue: isJobId(queue) ? REPLIES : queue }
}

function observe(histogram: Histogram<(typeof QUEUE)[number]>, labels: Queued, id: string): void {
  const publishedAt = timeOf(id)
  if (publishedAt !== undefined) histogram.observe(labels, Math.max(Date.now() - publishedAt, 0))
}

function exponential(start: number, factor: number, count: number): number[] {
  return Array.from({ length: count }, (_, power) => start * factor ** power)
}
