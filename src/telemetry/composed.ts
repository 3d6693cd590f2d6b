import type { Instrumentation, Kind, SpanObserver } from '../instrumentation.ts'

type Observer = SpanObserver<object>
type Hear = (told: unknown) => Observer | Observer['end'] | undefined

/** One instrument of several, in whose contexts the first is outermost. */
export function composed(...parts: readonly Instrumentation[]): Instrumentation {
  const kinds = new Set(parts.flatMap((part) => Object.keys(part) as Kind[]))
  return Object.fromEntries([...kinds].map((kind) => [kind, joined(parts, kind)]))
}

function joined(parts: readonly Instrumentation[], kind: Kind): Hear {
  const all = parts.map((part) => part[kind] as Hear | undefined).filter((hear) => hear !== undefined)
  if (all.length === 1) return all[0]!
  return (told) => {
    const observers = all.map((hear) => observerOf(hear(told)))
    return {
      within: (work) =>
        observers.reduceRight((inner, { within }) => (within ? () => within(inner) : inner), work)(),
      end: (end) => {
        for (const one of observers) one.end?.(end)
      },
    }
  }
}

function observerOf(returned: ReturnType<Hear>): Observer {
  return typeof returned === 'function' ? { end: returned } : (returned ?? {})
}
