import { setTimeout as sleep } from 'node:timers/promises'
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base'
import { defineQueue, type Instrumentation, Lockstep } from 'pg-lockstep'
import { otel } from 'pg-lockstep/otel'
import { prometheus } from 'pg-lockstep/prometheus'
import { lockstepWeb } from 'pg-lockstep/web'
import { Registry } from 'prom-client'
import type { Bench, Case, Figures } from '../case.ts'
import type { Push } from '../contender.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { median } from '../measure/percentile.ts'
import { fill, settle } from './work.ts'

/** ms between two looks of a page, as in a browser. */
const LOOK_EVERY = 2_000
const PAIRS = 7

/** What watches a worker, in its own process. */
interface Watch {
  readonly instrumentation: readonly Instrumentation[]
  /** What is asked each time the page looks. */
  readonly scrape?: () => Promise<unknown>
}

const NOTHING: Watch = { instrumentation: [] }

function metrics(): Watch {
  const telemetry = prometheus({ register: new Registry() })
  return { instrumentation: [telemetry], scrape: () => telemetry.metrics() }
}

/** To whom it may concern. */
const discard: SpanExporter = {
  export: (_, done) => done({ code: 0 }),
  shutdown: async () => {},
}

/** `share`: of the traces that are kept. */
function metricsAndTraces(share: number): Watch {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  const sampler = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(share) })
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ sampler, spanProcessors: [new BatchSpanProcessor(discard)] }),
  )
  const { instrumentation, scrape } = metrics()
  return { instrumentation: [...instrumentation, otel({ metrics: false })], scrape }
}

/** Jobs a second. The page is looked at only if something watches. */
async function rateOf(bench: Bench, watch: Watch, handler: number): Promise<number> {
  const { setting, size, pool } = bench
  const { connectionString, concurrency: slots } = setting
  const lockstep = new Lockstep({ connectionString, instrumentation: [...watch.instrumentation] })
  let done = 0
  const queue = defineQueue<number>('updates', {
    async perform(batch) {
      if (handler > 0) await sleep(handler)
      done += batch.size
    },
  })
  const enqueue = (pushes: readonly Push[]) =>
    lockstep.enqueue(
      queue,
      pushes.map(({ seq }) => ({ id: seq, payload: seq })),
    )
  await fill({ enqueue }, size.jobs, (seq) => ({ key: 'job', seq }))
  await settle(pool)
  const stop = watch === NOTHING ? async () => {} : watching(lockstep, watch)
  const worker = lockstep.createWorker({ queues: [queue], slots })
  const startedAt = performance.now()
  await worker.start()
  while (done < size.jobs && performance.now() - startedAt < size.patience * 1000) await sleep(2)
  const seconds = (performance.now() - startedAt) / 1000
  if (done < size.jobs) throw new Error(`${done} of ${size.jobs} jobs were done`)
  await stop()
  await worker.stop()
  await lockstep.close()
  return done / seconds
}

/** A page that is open, with metrics that are asked for as often. Returns how to close it. */
function watching(lockstep: Lockstep, { scrape }: Watch): () => Promise<void> {
  const { fetch } = lockstepWeb(lockstep, { access: 'open' })
  const closing = new AbortController()
  const looking = (async () => {
    while (!closing.signal.aborted) {
      const answer = await fetch(new Request('http://localhost/'))
      if (answer.status !== 200) throw new Error(await answer.text())
      await answer.text()
      await scrape?.()
      await sleep(LOOK_EVERY, undefined, { signal: closing.signal }).catch(() => {})
    }
  })()
  return () => {
    closing.abort()
    return looking
  }
}

/** The rate while watched as a share of the rate without, the median of runs in turns. */
async function watched(bench: Bench, watch: Watch, handler: number): Promise<Figures> {
  const shares: number[] = []
  await rateOf(bench, NOTHING, handler)
  while (shares.length < PAIRS) {
    const order = shares.length % 2 === 0 ? [NOTHING, watch] : [watch, NOTHING]
    const rates = new Map<Watch, number>()
    for (const one of order) rates.set(one, await rateOf(bench, one, handler))
    shares.push(rates.get(watch)! / rates.get(NOTHING)!)
    console.error(`  ${[...rates.values()].map(Math.round).join(', ')} jobs/s`)
  }
  return { value: median(shares) }
}

const WATCHES: Readonly<Record<string, [title: string, watch: () => Watch]>> = {
  page: ['the page open', () => ({ instrumentation: [] })],
  metrics: ['the page open and metrics', metrics],
  sampled: ['the page open, metrics, and one trace in ten', () => metricsAndTraces(0.1)],
  traces: ['the page open, metrics, and traces of all jobs', () => metricsAndTraces(1)],
}

/** How busy the worker is: with handlers that do nothing, or of 5 ms, its processor is. */
const LOADS = [
  { handler: 0, slots: 10, full: 100_000, quick: 20_000 },
  { handler: 5, slots: 64, full: 20_000, quick: 5_000 },
  { handler: 20, slots: 64, full: 15_000, quick: 5_000 },
]

export const watchedCases: readonly Case[] = Object.entries(WATCHES).flatMap(([name, [title, watch]]) =>
  LOADS.map(({ handler, slots, full, quick }) => ({
    name: handler === 0 ? `watched-${name}` : `watched-${name}-${handler}`,
    title: `${title}: its share of the rate without, handlers of ${handler} ms`,
    unit: '×',
    entrants: standard([LOCKSTEP]),
    inQuick: false,
    concurrency: slots,
    full: { jobs: full, patience: 60, repeats: 1 },
    quick: { jobs: quick, patience: 60 },
    run: (bench) => watched(bench, watch(), handler),
  })),
)
