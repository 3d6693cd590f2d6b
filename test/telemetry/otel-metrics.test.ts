import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import * as conventions from '@opentelemetry/semantic-conventions/incubating'
import { beforeAll, expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { DATABASE_GAUGES, METRICS, type Metric, WORKER_GAUGES } from '../../src/telemetry/catalogue.ts'
import { otel } from '../../src/telemetry/otel.ts'
import { ATTRIBUTE } from '../../src/telemetry/otel-attributes.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const reader = new PeriodicExportingMetricReader({
  exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
  exportIntervalMillis: 86_400_000,
})

beforeAll(() => {
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))
})

/** All data points, by metric. */
async function collected(): Promise<
  Map<string, { unit: string; points: { attributes: object; value: unknown }[] }>
> {
  const { resourceMetrics, errors } = await reader.collect()
  expect(errors).toEqual([])
  const all = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
  return new Map(
    all.map(({ descriptor, dataPoints, dataPointType }) => {
      const counted = (value: unknown) =>
        dataPointType === DataPointType.HISTOGRAM ? (value as { count: number }).count : value
      const points = dataPoints.map(({ attributes, value }) => ({ attributes, value: counted(value) }))
      return [descriptor.name, { unit: descriptor.unit, points }]
    }),
  )
}

const all: readonly Metric[] = [METRICS, WORKER_GAUGES, DATABASE_GAUGES].flatMap((some) =>
  Object.values<Metric>(some),
)

test('everything is measured, under the names of the conventions where there are some', async () => {
  const { connectionString, logger } = env
  const lockstep = new Lockstep({ connectionString, logger, instrumentation: [otel()] })
  env.later(() => lockstep.close())
  const queue = env.queue({
    shards: 2,
    retryIn: () => 600,
    perform(batch) {
      if (batch.has('bad')) throw new TypeError('bad')
    },
  })
  await lockstep.enqueue(queue, [{ id: 'good', payload: 1 }, { id: 'good', payload: 2 }, { id: 'bad' }])
  await expect(lockstep.enqueue(queue, { id: '' })).rejects.toThrow()
  await lockstep.enqueue(queue, { id: 'later', performIn: Date.now() + 3_600_000 })
  const worker = env.create({ queues: [queue], slots: 3, lease: 500 }, lockstep)
  const ended = Promise.all([next(worker, 'completed'), next(worker, 'failed')])
  await worker.start()
  // The database is read when metrics are collected for the first time.
  await ended
  await eventually(async () =>
    expect((await collected()).get('pg_lockstep.lease.renewal.duration')).toBeDefined(),
  )
  const found = await collected()
  const common = { 'messaging.system': 'pg_lockstep', 'messaging.destination.name': queue.name }
  const send = { ...common, 'messaging.operation.name': 'enqueue', 'messaging.operation.type': 'send' }
  const process = { ...common, 'messaging.operation.name': 'perform' }
  expect(found.get('messaging.client.sent.messages')!.points).toEqual([{ attributes: send, value: 4 }])
  expect(found.get('messaging.client.operation.duration')!.points).toEqual([
    { attributes: send, value: 2 },
    { attributes: { ...send, 'error.type': 'LOCKSTEP_BAD_JOB' }, value: 1 },
  ])
  expect(found.get('messaging.client.consumed.messages')!.points).toEqual([
    { attributes: { ...process, 'messaging.operation.type': 'process' }, value: 3 },
  ])
  const runs = found.get('messaging.process.duration')!.points
  expect(runs).toHaveLength(2)
  expect(runs).toContainEqual({ attributes: process, value: 1 })
  expect(runs).toContainEqual({ attributes: { ...process, 'error.type': 'TypeError' }, value: 1 })
  const value = (name: string, attributes: object = common) =>
    found.get(name)!.points.find((point) => JSON.stringify(point.attributes) === JSON.stringify(attributes))
      ?.value
  for (const outcome of ['completed', 'failed'])
    expect(value('pg_lockstep.performed', { ...common, 'messaging.pg_lockstep.outcome': outcome })).toBe(1)
  const system = { 'messaging.system': 'pg_lockstep' }
  expect(value('pg_lockstep.merged')).toBe(1)
  expect(value('pg_lockstep.wait.duration')).toBe(2)
  expect(value('pg_lockstep.shards', system)).toBe(2)
  expect(value('pg_lockstep.slots', system)).toBe(3)
  expect(value('pg_lockstep.jobs.waiting')).toBe(2)
  expect(value('pg_lockstep.jobs.due')).toBe(0)
  expect(value('pg_lockstep.database.readable', system)).toBe(1)

  const named = all.flatMap(({ otel }) => (otel ? [otel] : []))
  expect([...found.keys()].sort()).toEqual(named.map(({ name }) => name).sort())
  for (const { name, unit } of named) expect([name, found.get(name)!.unit]).toEqual([name, unit])
})

test('names that begin like those of the conventions are theirs', () => {
  const known = new Set<unknown>(Object.values(conventions))
  const names = all.flatMap(({ otel }) => (otel?.name.startsWith('messaging.') ? [otel.name] : []))
  expect(names.length).toBe(4)
  const types = all.flatMap(({ otel }) => (otel?.type === undefined ? [] : [otel.type]))
  expect([...names, ...types, ...Object.values(ATTRIBUTE)].filter((name) => !known.has(name))).toEqual([])
})

test('without metrics, nothing is measured beside the traces', async () => {
  const made: string[] = []
  const counting = new MeterProvider()
  const { getMeter } = counting
  counting.getMeter = (name, ...rest) => {
    made.push(name)
    return getMeter.call(counting, name, ...rest)
  }
  metrics.disable()
  metrics.setGlobalMeterProvider(counting)
  otel({ metrics: false })
  expect(made).toEqual([])
  otel()
  expect(made.length).toBeGreaterThan(0)
})
