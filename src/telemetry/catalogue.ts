/** What a metric is in OpenTelemetry: by its conventions for messaging where they have one. */
interface OtelName {
  readonly name: string
  readonly unit: string
  /** `messaging.operation.name`, which the conventions want with their metrics. */
  readonly operation?: string
  /** `messaging.operation.type`. */
  readonly type?: string
}

export interface Metric {
  readonly kind: 'counter' | 'histogram' | 'gauge'
  /** For Prometheus, after the prefix. */
  readonly name: string
  readonly help: string
  /** None by id: ids are without number. */
  readonly labels: readonly Label[]
  /** Undefined if another metric of OpenTelemetry tells it. */
  readonly otel?: OtelName
}

export type Label = 'queue' | 'outcome'

/** How a round ended. */
export type Outcome = 'completed' | 'failed' | 'snoozed' | 'dropped'

/** What happens in this process. */
export const METRICS = {
  enqueued: {
    kind: 'counter',
    name: 'enqueued_total',
    help: 'Payloads that calls of enqueue have stored, in committed transactions or not.',
    labels: ['queue'],
    otel: { name: 'messaging.client.sent.messages', unit: '{message}', operation: 'enqueue', type: 'send' },
  },
  enqueueErrors: {
    kind: 'counter',
    name: 'enqueue_errors_total',
    help: 'Calls of enqueue that failed.',
    labels: ['queue'],
  },
  enqueue: {
    kind: 'histogram',
    name: 'enqueue_seconds',
    help: 'Time that calls of enqueue took.',
    labels: ['queue'],
    otel: { name: 'messaging.client.operation.duration', unit: 's', operation: 'enqueue', type: 'send' },
  },
  wait: {
    kind: 'histogram',
    name: 'wait_seconds',
    help: 'Time from when a round was due to the beginning of its handler, by the clock of the database.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.wait.duration', unit: 's' },
  },
  run: {
    kind: 'histogram',
    name: 'run_seconds',
    help: 'Time that handlers ran, with their middleware; once for each batch.',
    labels: ['queue'],
    otel: { name: 'messaging.process.duration', unit: 's', operation: 'perform' },
  },
  handed: {
    kind: 'counter',
    name: 'handed_total',
    help: 'Payloads that were handed to handlers, in retries again.',
    labels: ['queue'],
    otel: {
      name: 'messaging.client.consumed.messages',
      unit: '{message}',
      operation: 'perform',
      type: 'process',
    },
  },
  performed: {
    kind: 'counter',
    name: 'performed_total',
    help: 'Rounds that ended, by outcome: completed, failed, snoozed or dropped.',
    labels: ['queue', 'outcome'],
    otel: { name: 'pg_lockstep.performed', unit: '{round}' },
  },
  merged: {
    kind: 'counter',
    name: 'merged_total',
    help: 'Payloads beyond the first of completed rounds: each would have been a run of its own.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.merged', unit: '{message}' },
  },
  died: {
    kind: 'counter',
    name: 'died_total',
    help: 'Payloads that went to the morgue because of what their handler did.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.died', unit: '{message}' },
  },
  expired: {
    kind: 'counter',
    name: 'expired_total',
    help: 'Payloads that expired before they could be handed over, or again, and that this process removed.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.expired', unit: '{message}' },
  },
  rescued: {
    kind: 'counter',
    name: 'rescued_total',
    help: 'Rounds that were taken over from a process that died.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.rescued', unit: '{round}' },
  },
  refused: {
    kind: 'counter',
    name: 'refused_total',
    help: 'Outcomes that were refused because the claim was stale, or whose fate is unknown.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.refused', unit: '{round}' },
  },
  renewal: {
    kind: 'histogram',
    name: 'lease_renewal_seconds',
    help: 'Time that renewals of the lease took.',
    labels: [],
    otel: { name: 'pg_lockstep.lease.renewal.duration', unit: 's' },
  },
} as const satisfies Record<string, Metric>

/** Of the workers in this process. */
export const WORKER_GAUGES = {
  shards: {
    kind: 'gauge',
    name: 'shards',
    help: 'Shards that the workers of this process hold.',
    labels: [],
    otel: { name: 'pg_lockstep.shards', unit: '{shard}' },
  },
  slots: {
    kind: 'gauge',
    name: 'slots',
    help: 'Slots of the workers of this process.',
    labels: [],
    otel: { name: 'pg_lockstep.slots', unit: '{slot}' },
  },
  running: {
    kind: 'gauge',
    name: 'slots_running',
    help: 'Slots of this process whose handlers run.',
    labels: [],
    otel: { name: 'pg_lockstep.slots.running', unit: '{slot}' },
  },
} as const satisfies Record<string, Metric>

/** Of the database: the same in all processes. */
export const DATABASE_GAUGES = {
  readable: {
    kind: 'gauge',
    name: 'database_readable',
    help: '1 if the state of the queues could be read from the database, 0 if not.',
    labels: [],
    otel: { name: 'pg_lockstep.database.readable', unit: '1' },
  },
  waiting: {
    kind: 'gauge',
    name: 'jobs_waiting',
    help: 'Jobs that wait, due or not.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.jobs.waiting', unit: '{job}' },
  },
  due: {
    kind: 'gauge',
    name: 'jobs_due',
    help: 'Jobs that wait and could start now.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.jobs.due', unit: '{job}' },
  },
  working: {
    kind: 'gauge',
    name: 'jobs_working',
    help: 'Jobs in work.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.jobs.working', unit: '{job}' },
  },
  dead: {
    kind: 'gauge',
    name: 'payloads_dead',
    help: 'Payloads in the morgue.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.payloads.dead', unit: '{message}' },
  },
  lag: {
    kind: 'gauge',
    name: 'lag_seconds',
    help: 'Time since the oldest due job became due; 0 if none is due.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.lag', unit: 's' },
  },
  paused: {
    kind: 'gauge',
    name: 'queue_paused',
    help: '1 if the queue is paused, 0 if not.',
    labels: ['queue'],
    otel: { name: 'pg_lockstep.queue.paused', unit: '1' },
  },
  snapshot: {
    kind: 'gauge',
    name: 'oldest_snapshot_seconds',
    help: 'Age of the oldest transaction whose snapshot keeps VACUUM from removing dead rows in this database.',
    labels: [],
    otel: { name: 'pg_lockstep.snapshot.age', unit: 's' },
  },
} as const satisfies Record<string, Metric>

export type MetricKey = keyof typeof METRICS
export type GaugeKey = keyof typeof WORKER_GAUGES | keyof typeof DATABASE_GAUGES

type KeyOf<Kind> = { [Key in MetricKey]: (typeof METRICS)[Key]['kind'] extends Kind ? Key : never }[MetricKey]
export type CounterKey = KeyOf<'counter'>
export type HistogramKey = KeyOf<'histogram'>

/** Bounds of histograms, in seconds: handlers run, and jobs wait, from milliseconds to hours. */
export const BUCKETS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200,
]
