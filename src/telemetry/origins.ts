import {
  type Context,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api'
import type { PerformedRound } from '../instrumentation.ts'
import type { PayloadHeaders } from '../job.ts'
import { OWN_ATTRIBUTE } from './otel-attributes.ts'

/** Where the payloads of a batch come from. */
export interface Origins {
  /** To each span that pushed some of them, once. */
  readonly links: Link[]
  /** The context of the first push, if all that have one are of the same trace. */
  readonly origin: Context | undefined
}

/** What an SDK keeps of the links of a span, unless it is told otherwise. */
const MOST_LINKS = 128

/** Headers are JSON of anyone's, so that a name may stand for anything. */
const GETTER: TextMapGetter<PayloadHeaders> = {
  keys: (headers) => Object.keys(headers),
  get(headers, name) {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined
    return typeof value === 'string' ? value : undefined
  },
}

const NONE: Origins = { links: [], origin: undefined }

export function originsOf(rounds: readonly PerformedRound[], jobIds: boolean): Origins {
  if (rounds.every(({ headers }) => headers === undefined)) return NONE
  const links = new Map<string, Link>()
  const traces = new Set<string>()
  let origin: Context | undefined
  for (const { id, headers } of rounds) {
    const attributes = jobIds ? { [OWN_ATTRIBUTE.jobId]: id } : {}
    for (const one of headers ?? []) {
      if (links.size >= MOST_LINKS) break
      const from = one ? propagation.extract(ROOT_CONTEXT, one, GETTER) : undefined
      const context = from && trace.getSpanContext(from)
      if (!context) continue
      origin ??= from
      traces.add(context.traceId)
      const key = `${context.traceId} ${context.spanId} ${id}`
      if (!links.has(key)) links.set(key, { context, attributes })
    }
  }
  return { links: [...links.values()], origin: traces.size === 1 ? origin : undefined }
}
