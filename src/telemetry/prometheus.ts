import { Counter, register as defaultRegister, Gauge, Histogram, type Registry } from 'prom-client'
import { OptionError } from '../errors.ts'
import type { Instrumentation } from '../instrumentation.ts'
import { rejectUnknownOptions, show, trueOrFalse } from '../options.ts'
import {
  BUCKETS,
  type CounterKey,
  DATABASE_GAUGES,
  type GaugeKey,
  type HistogramKey,
  METRICS,
  type Metric,
  WORKER_GAUGES,
} from './catalogue.ts'
import { composed } from './composed.ts'
import { type Labels, measures, OUTCOMES } from './measures.ts'
import { State } from './state.ts'

/** A registry of `prom-client`, whatever it writes. */
// biome-ignore lint/suspicious/noExplicitAny: of Prometheus' format or of OpenMetrics
type AnyRegistry = Registry<any>

export interface PrometheusOptions {
  /** The registry to put the metrics into. Default: the default one of `prom-client`. */
  readonly register?: AnyRegistry
  /** What the names of the metrics begin with. Default `lockstep_`. */
  readonly prefix?: string
  /** The upper bounds of all histograms, in seconds, rising. Default: 18 from 1 ms to two hours. */
  readonly buckets?: readonly number[]
  /**
   * Whether gauges show the state of the queues, read from the database when they are scraped: once in 5 s at most, and less
   * often if it takes long, since all jobs are counted. All processes show the same, so some may leave it out. Default true.
   */
  readonly databaseGauges?: boolean
}

/** The instrument, and what it has measured. */
export type PrometheusInstrument = Instrumentation & {
  /** All metrics of the registry, as text to answer a scrape with. Never rejects because of the database. */
  metrics(): Promise<string>
  /** The `Content-Type` of that text. */
  readonly contentType: string
}

const OPTIONS = ['register', 'prefix', 'buckets', 'databaseGauges']
const PREFIX = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/

/**
 * Metrics for Prometheus, by `prom-client`: `new Lockstep({ …, instrumentation: [prometheus()] })`. For one database: if
 * several `Lockstep` are given the same instrument, its gauges show that of the one that was created last.
 * @throws OptionError, also if the registry has metrics of these names already
 */
export function prometheus(options: PrometheusOptions = {}): PrometheusInstrument {
  rejectUnknownOptions(options, OPTIONS, 'prometheus')
  const {
    register = defaultRegister,
    prefix = 'lockstep_',
    buckets = BUCKETS,
    databaseGauges = true,
  } = options
  check(register, prefix, buckets)
  const counted = new Set<string>()
  const forget = (queue: string) => {
    counted.delete(queue)
    removeSeries(register, prefix, queue)
  }
  const state = new State(trueOrFalse(databaseGauges, 'prometheus: databaseGauges'), counted, forget)
  const gauges = databaseGauges ? { ...WORKER_GAUGES, ...DATABASE_GAUGES } : WORKER_GAUGES
  requireNew(register, prefix, [...Object.values(METRICS), ...Object.values(gauges)])
  for (const [key, gauge] of Object.entries(gauges)) addGauge(register, prefix, gauge, state, key as GaugeKey)
  const face = {
    metrics: () => register.metrics(),
    get contentType() {
      return register.contentType
    },
  }
  return Object.assign(
    Object.create(face),
    composed(state.instrument, measured(register, prefix, buckets, counted)),
  )
}

/** Adds to `queues` those that are counted. */
function measured(
  register: AnyRegistry,
  prefix: string,
  buckets: readonly number[],
  queues: Set<string>,
): Instrumentation {
  const counters = new Map<CounterKey, Counter>()
  const histograms = new Map<HistogramKey, Histogram>()
  for (const [key, metric] of Object.entries(METRICS)) {
    const shared = sharedOf(register, prefix, metric)
    if (metric.kind === 'counter') counters.set(key as CounterKey, new Counter(shared))
    else histograms.set(key as HistogramKey, new Histogram({ ...shared, buckets: [...buckets] }))
  }
  const seen = (labels: Labels) => {
    if (labels.queue !== undefined) queues.add(labels.queue)
    return labels
  }
  return measures({
    count: (key, labels, by) => counters.get(key)!.inc(seen(labels), by),
    time: (key, labels, ms) => histograms.get(key)!.observe(seen(labels), ms / 1_000),
  })
}

/** What was counted of a queue that is no more: applications that create and delete queues would gather series for ever. */
function removeSeries(register: AnyRegistry, prefix: string, queue: string): void {
  for (const { name, labels } of Object.values<Metric>(METRICS)) {
    if (!labels.includes('queue')) continue
    const metric = register.getSingleMetric(prefix + name) as Counter | Histogram | undefined
    if (labels.includes('outcome')) for (const outcome of OUTCOMES) metric?.remove({ queue, outcome })
    else metric?.remove({ queue })
  }
}

function addGauge(register: AnyRegistry, prefix: string, metric: Metric, state: State, key: GaugeKey): void {
  const gauge = new Gauge({
    ...sharedOf(register, prefix, metric),
    // Of the processes of a cluster.
    aggregator: key in WORKER_GAUGES ? 'sum' : 'max',
    async collect() {
      const samples = await state.samples()
      // Queues go, too.
      gauge.reset()
      if (metric.labels.length === 0) gauge.remove()
      for (const { value, queue, ...sample } of samples)
        if (sample.gauge === key) gauge.set(queue === undefined ? {} : { queue }, value)
    },
  })
}

function sharedOf(register: AnyRegistry, prefix: string, { name, help, labels }: Metric) {
  return { name: prefix + name, help, labelNames: [...labels], registers: [register] }
}

function check(register: AnyRegistry, prefix: unknown, buckets: readonly number[]): void {
  if (typeof register?.registerMetric !== 'function')
    throw new OptionError(`prometheus: register must be a Registry of \`prom-client\`, not ${show(register)}`)
  if (typeof prefix !== 'string' || !PREFIX.test(prefix))
    throw new OptionError(
      `prometheus: prefix must be letters, digits, _ and :, and not begin with a digit, not ${show(prefix)}`,
    )
  const rises =
    Array.isArray(buckets) &&
    buckets.every((bound, at) => Number.isFinite(bound) && bound > (buckets[at - 1] ?? 0))
  if (!rises || buckets.length === 0)
    throw new OptionError('prometheus: buckets must be a list of finite numbers above 0, each above the last')
}

function requireNew(register: AnyRegistry, prefix: string, metrics: readonly Metric[]): void {
  const taken = metrics.find(({ name }) => register.getSingleMetric(prefix + name))
  if (taken)
    throw new OptionError(
      `prometheus: the registry has a metric ${prefix}${taken.name} already: create the instrument once for a process, or give it another \`register\` or \`prefix\``,
    )
}
