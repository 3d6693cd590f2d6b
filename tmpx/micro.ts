import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { Registry } from 'prom-client'
import { Instruments } from '../src/instruments.ts'
import { prometheus } from '../src/telemetry/prometheus.ts'
import { otel } from '../src/telemetry/otel.ts'
import { observed, performed } from '../src/worker/settling/observed.ts'

const logger = console as any
const round = { id: 'a', fence: 1n, retryCount: 0, crashes: 0, scores: [1], performIn: 1e15, headers: undefined } as any
const claimant = { processId: 1, served: {queue: {name: 'updates'}}, shard: 1, slot: 1 } as any
async function run(name: string, list: any[]) {
  const instruments = new Instruments(list, logger)
  const N = 200_000
  const work = async () => {}
  let b = 1e9
  for (let rep = 0; rep < 3; rep++) {
    const c0 = process.cpuUsage()
    for (let i = 0; i < N; i++) {
      if (list.length === 0) await work()
      else {
      await instruments.watch('perform', performed(claimant, [round], 1e15+i), work as any, () => ({ failed: new Map() }) as any)
      instruments.tell('complete', { duration: 4, ...observed(claimant, [round]) })
      }
    }
    const c = process.cpuUsage(c0)
    b = Math.min(b, (c.user + c.system) / N)
  }
  console.log(name, b.toFixed(2), 'µs per batch')
}


const p = prometheus({ register: new Registry(), databaseGauges: false })

const o0 = otel({ databaseGauges: false })
await run('otel, no provider', [o0])
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor({ export: (_, done) => done({ code: 0 }), shutdown: async () => {} })] }))
await run('otel traces', [otel({ databaseGauges: false })])
await run('both', [p, otel({ databaseGauges: false })])
