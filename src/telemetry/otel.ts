import type { Instrumentation } from '../instrumentation.ts'
import { optionalFunction, rejectUnknownOptions, trueOrFalse } from '../options.ts'
import { composed } from './composed.ts'
import { metering } from './otel-metrics.ts'
import { tracing } from './otel-traces.ts'

export interface OtelOptions {
  /**
   * Whether the run of a handler continues the trace in which its payloads were pushed, if that is a single one: its span is a
   * child of the span that pushed first. Otherwise each run begins a trace of its own. It is linked in both cases. Default
   * false.
   */
  readonly continueTraces?: boolean
  /** Whether spans and links have the ids of their jobs. Default true. */
  readonly jobIds?: boolean
  /**
   * The text that spans have for an error, to leave out what no one should read there; without its stack. If it throws or
   * returns no text, that is the error's class. Default: the message and the stack of what was thrown.
   */
  formatError?(error: unknown): string
  /** Whether there are metrics beside traces. An application that has `prometheus()` for them saves their cost. Default true. */
  readonly metrics?: boolean
  /**
   * Whether gauges show the state of the queues, read from the database when metrics are collected: once in 5 s at most, and
   * less often if it takes long, since all jobs are counted. All processes show the same, so some may leave it out. Default
   * true.
   */
  readonly databaseGauges?: boolean
}

const OPTIONS = ['continueTraces', 'jobIds', 'formatError', 'metrics', 'databaseGauges']

/**
 * Traces and metrics for OpenTelemetry: `new Lockstep({ …, instrumentation: [otel()] })`, by the conventions for messaging. It
 * uses the providers that are registered globally when this is called, or later for traces. The trace context travels in the
 * headers of payloads, as the registered propagator writes it.
 *
 * For one database: if several `Lockstep` are given the same instrument, its gauges show that of the one created last.
 * @throws OptionError
 */
export function otel(options: OtelOptions = {}): Instrumentation {
  rejectUnknownOptions(options, OPTIONS, 'otel')
  const {
    continueTraces = false,
    jobIds = true,
    metrics = true,
    databaseGauges = true,
    formatError,
  } = options
  const tracer = tracing({
    continueTraces: trueOrFalse(continueTraces, 'otel: continueTraces'),
    jobIds: trueOrFalse(jobIds, 'otel: jobIds'),
    formatError: optionalFunction(formatError, 'otel: formatError'),
  })
  const hasGauges = trueOrFalse(databaseGauges, 'otel: databaseGauges')
  return trueOrFalse(metrics, 'otel: metrics') ? composed(tracer, metering(hasGauges)) : tracer
}
