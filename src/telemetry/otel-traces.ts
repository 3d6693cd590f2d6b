import {
  type Attributes,
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { wantedOf } from '../ending.ts'
import { messageOf } from '../errors.ts'
import type { Instrumentation, PerformedBatch, SpanObserver } from '../instrumentation.ts'
import { VERSION } from '../version.ts'
import { payloadsOf } from './measures.ts'
import { originsOf } from './origins.ts'
import { ATTRIBUTE, errorAttributes, OWN_ATTRIBUTE, SYSTEM, typeOf } from './otel-attributes.ts'

interface TraceSettings {
  readonly continueTraces: boolean
  readonly jobIds: boolean
  readonly formatError: ((error: unknown) => string) | undefined
}

/** Errors of a batch that its span shows. */
const MOST_ERRORS = 10

/** Spans of pushes and of runs of handlers. */
export function tracing(settings: TraceSettings): Instrumentation {
  const tracer = trace.getTracer(SYSTEM, VERSION)
  return {
    enqueue({ queue, jobs }) {
      const attributes = attributesOf(queue, 'enqueue', 'send')
      if (jobs !== 1) attributes[ATTRIBUTE.messageCount] = jobs
      const span = tracer.startSpan(`enqueue ${queue}`, { kind: SpanKind.PRODUCER, attributes })
      return inside<{ stored: number }>(context.active(), span, ({ stored, error }) => {
        if (stored === undefined) fail(span, [error], settings)
      })
    },
    headers() {
      const carrier: Record<string, string> = {}
      propagation.inject(context.active(), carrier)
      return carrier
    },
    perform(batch) {
      const { queue, rounds } = batch
      const { links, origin } = originsOf(rounds, settings.jobIds)
      // The worker's own context is that of whoever started it.
      const parent = settings.continueTraces && origin ? origin : ROOT_CONTEXT
      const attributes = performAttributes(batch, settings.jobIds)
      const span = tracer.startSpan(
        `perform ${queue}`,
        { kind: SpanKind.CONSUMER, attributes, links },
        parent,
      )
      return inside<{ failed: ReadonlyMap<string, unknown> }>(parent, span, ({ failed, error }) => {
        fail(span, failed ? [...failed.values()] : [error], settings)
      })
    },
  }
}

type End<Result> = NonNullable<SpanObserver<Result>['end']>

/** The operation in the context of its span, which ends with it. */
function inside<Result>(parent: Context, span: Span, conclude: End<Result>): SpanObserver<Result> {
  const own = trace.setSpan(parent, span)
  return {
    within: (work) => context.with(own, work),
    end(end) {
      conclude(end)
      span.end()
    },
  }
}

/** `thrown`: of each round that did not succeed. A handler throws the same for all ids of its batch. */
function fail(span: Span, thrown: readonly unknown[], { formatError }: TraceSettings): void {
  const errors: unknown[] = []
  for (const one of new Set(thrown)) {
    const wanted = wantedOf(one)
    const isEnding = wanted?.end === 'snooze' || (wanted?.end === 'discard' && !wanted.morgue)
    if (isEnding) span.addEvent(wanted.end === 'snooze' ? 'snoozed' : 'dropped')
    else errors.push(one)
  }
  if (errors.length === 0) return
  for (const error of errors.slice(0, MOST_ERRORS)) span.recordException(exceptionOf(error, formatError))
  span.setAttributes(errorAttributes(errors[0]))
  span.setStatus({ code: SpanStatusCode.ERROR, message: exceptionOf(errors[0], formatError).message })
}

function exceptionOf(error: unknown, format: TraceSettings['formatError']) {
  const name = typeOf(error)
  if (format) return { name, message: formatted(error, format) ?? name }
  if (!(error instanceof Error)) return { name, message: messageOf(error) }
  return { name, message: error.message, stack: error.stack }
}

function formatted(error: unknown, format: (error: unknown) => string): string | undefined {
  try {
    const text: unknown = format(error)
    return typeof text === 'string' ? text : undefined
  } catch {
    return undefined
  }
}

function performAttributes({ queue, rounds, processId, shard }: PerformedBatch, jobIds: boolean): Attributes {
  const attributes = attributesOf(queue, 'perform', 'process')
  attributes[ATTRIBUTE.client] = String(processId)
  attributes[ATTRIBUTE.partition] = String(shard)
  const payloads = payloadsOf(rounds)
  if (payloads !== 1) attributes[ATTRIBUTE.messageCount] = payloads
  if (rounds.length > 1) return attributes
  const [round] = rounds
  attributes[OWN_ATTRIBUTE.retryCount] = round!.retryCount
  if (jobIds) attributes[OWN_ATTRIBUTE.jobId] = round!.id
  return attributes
}

function attributesOf(queue: string, operation: string, type: string): Attributes {
  return {
    [ATTRIBUTE.system]: SYSTEM,
    [ATTRIBUTE.destination]: queue,
    [ATTRIBUTE.operation]: operation,
    [ATTRIBUTE.operationType]: type,
  }
}
