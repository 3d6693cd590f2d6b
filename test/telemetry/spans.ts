import {
  type Context,
  context,
  propagation,
  type Span,
  SpanKind,
  type TextMapGetter,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'

const exporter = new InMemorySpanExporter()

/** Expects texts or nothing, as most propagators do. */
class StrictPropagator implements TextMapPropagator {
  readonly wrong: unknown[] = []

  inject(): void {}

  extract(context: Context, carrier: unknown, getter: TextMapGetter): Context {
    const value = getter.get(carrier, 'traceparent')
    if (value !== undefined && typeof value !== 'string') this.wrong.push(value)
    return context
  }

  fields(): string[] {
    return []
  }
}
export const strict = new StrictPropagator()

/** Sets OpenTelemetry up as an application does. */
export function register(): void {
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  )
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(
    new CompositePropagator({
      propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator(), strict],
    }),
  )
}

/** Those that have ended in this test. */
export function spans(): ReadableSpan[] {
  return exporter.getFinishedSpans()
}

export function forgetSpans(): void {
  exporter.reset()
}

export function span(name: string): ReadableSpan {
  const found = spans().filter((one) => one.name === name)
  if (found.length !== 1) throw new Error(`${found.length} spans are named ${name}`)
  return found[0]!
}

/** Does `work` in a span of the application's. */
export function inSpan<T>(
  name: string,
  work: (span: Span) => T | Promise<T>,
  kind = SpanKind.INTERNAL,
): Promise<T> {
  return trace.getTracer('application').startActiveSpan(name, { kind }, async (span) => {
    try {
      return await work(span)
    } finally {
      span.end()
    }
  })
}

/** All traces as text: a line a span, below its parent, and the names of those that it links to. */
export function drawn(): string[] {
  const all = spans()
  const nameOf = (id: string) => all.find((one) => one.spanContext().spanId === id)?.name ?? 'unknown'
  const below = (parent: string | undefined, indent: string): string[] =>
    all
      .filter((one) => (one.parentSpanContext?.spanId ?? '') === (parent ?? ''))
      .sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1])
      .flatMap((one) => {
        const links = one.links.map(({ context }) => nameOf(context.spanId))
        const kind = SpanKind[one.kind].toLowerCase()
        const line = `${indent}${one.name} (${kind})${links.length > 0 ? ` → ${links.join(', ')}` : ''}`
        return [line, ...below(one.spanContext().spanId, `${indent}  `)]
      })
  return below(undefined, '')
}
