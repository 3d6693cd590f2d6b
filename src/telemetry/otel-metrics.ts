import { type Attributes, type Counter, type Histogram, type Meter, metrics } from '@opentelemetry/api'
import type { Instrumentation } from '../instrumentation.ts'
import { VERSION } from '../version.ts'
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
import { type Labels, measures } from './measures.ts'
import { ATTRIBUTE, errorAttributes, OWN_ATTRIBUTE, SYSTEM } from './otel-attributes.ts'
import { State } from './state.ts'

/** Measures with the meter provider that is registered. */
export function metering(databaseGauges: boolean): Instrumentation {
  const meter = metrics.getMeter(SYSTEM, VERSION)
  const state = new State(databaseGauges)
  addGauges(meter, state, databaseGauges ? { ...WORKER_GAUGES, ...DATABASE_GAUGES } : WORKER_GAUGES)
  return composed(state.instrument, measured(meter))
}

function measured(meter: Meter): Instrumentation {
  const counters = new Map<CounterKey, Counter>()
  const histograms = new Map<HistogramKey, Histogram>()
  for (const [key, { kind, otel, help }] of Object.entries<Metric>(METRICS)) {
    if (!otel) continue
    const options = { unit: otel.unit, description: help }
    if (kind === 'counter') counters.set(key as CounterKey, meter.createCounter(otel.name, options))
    else {
      const advice = { explicitBucketBoundaries: [...BUCKETS] }
      histograms.set(key as HistogramKey, meter.createHistogram(otel.name, { ...options, advice }))
    }
  }
  return measures({
    count: (key, labels, by) => counters.get(key)?.add(by, attributesOf(METRICS[key], labels)),
    time(key, labels, ms, error) {
      const attributes = attributesOf(METRICS[key], labels)
      if (error !== undefined) Object.assign(attributes, errorAttributes(error))
      histograms.get(key)?.record(ms / 1_000, attributes)
    },
  })
}

function addGauges(meter: Meter, state: State, gauges: Readonly<Record<string, Metric>>): void {
  const observed = Object.entries(gauges).map(([key, { otel, help }]) => {
    const options = { unit: otel!.unit, description: help }
    // What the processes have adds up; what the database has doesn't.
    const gauge =
      key in WORKER_GAUGES
        ? meter.createObservableUpDownCounter(otel!.name, options)
        : meter.createObservableGauge(otel!.name, options)
    return [key as GaugeKey, gauge] as const
  })
  const byKey = new Map(observed)
  meter.addBatchObservableCallback(
    async (result) => {
      for (const { gauge, value, queue } of await state.samples()) {
        const to = byKey.get(gauge)
        if (to) result.observe(to, value, attributesOf(gauges[gauge]!, queue === undefined ? {} : { queue }))
      }
    },
    [...byKey.values()],
  )
}

function attributesOf({ otel }: Metric, { queue, outcome }: Labels): Attributes {
  const attributes: Attributes = { [ATTRIBUTE.system]: SYSTEM }
  if (queue !== undefined) attributes[ATTRIBUTE.destination] = queue
  if (outcome !== undefined) attributes[OWN_ATTRIBUTE.outcome] = outcome
  if (otel?.operation !== undefined) attributes[ATTRIBUTE.operation] = otel.operation
  if (otel?.type !== undefined) attributes[ATTRIBUTE.operationType] = otel.type
  return attributes
}
