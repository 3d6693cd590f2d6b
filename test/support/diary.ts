import type { Batch, PerformContext, ServerMiddleware } from '../../src/index.ts'
import type { WorkerEmitter } from '../../src/worker/events.ts'
import { append, type Entry, now } from './handler-log.ts'

type Handler<Payload, Context> = (batch: Batch<Payload>, context: Context) => Promise<void>

/** A round of an id about which the worker has said nothing yet. */
interface OpenRound {
  readonly fence: number
  ended: boolean
  returned: boolean
}

/** When the worker was about to check its lease for the last time, and whether anything has waited since. */
interface Asked {
  readonly at: bigint
  waited: boolean
}

/** Writes the log of handlers for one worker process. */
export class Diary {
  readonly #process: string
  readonly #log: string
  /** By id, the newest last. The outcome of a lost lease may be under way while this process has the id's next round. */
  readonly #open = new Map<string, OpenRound[]>()
  readonly #asked = new WeakMap<PerformContext, Asked>()

  /** `process` is a name that no other process has. */
  constructor(process: string, log: string) {
    this.#process = process
    this.#log = log
  }

  /**
   * The innermost middleware. Between it and the handler's first line, the worker checks its lease, and nothing waits.
   */
  readonly asking: ServerMiddleware = ({ context }, perform) => {
    const asked = { at: now(), waited: false }
    queueMicrotask(() => {
      asked.waited = true
    })
    this.#asked.set(context, asked)
    return perform()
  }

  /** Wraps a handler so that its begin and end are written down. An id that the handler fails alone has not returned. */
  around<Payload, Context extends PerformContext>(
    queue: string,
    handler: Handler<Payload, Context>,
  ): Handler<Payload, Context> {
    return async (batch, context) => {
      const at = now()
      const question = this.#asked.get(context)
      const asked = question?.waited === false ? question.at : undefined
      const rounds = [...batch.keys()].map((id) => this.#begin(queue, id, context.jobs.get(id)!.fence))
      append(
        this.#log,
        rounds.map(({ key }) => ({ ...key, kind: 'begin', at, asked, payloads: batch.get(key.id)! })),
      )
      const failed = new Set<string>()
      const fail: PerformContext['fail'] = (id, error) => {
        context.fail(id, error)
        failed.add(id)
      }
      let returned = false
      try {
        await handler(batch, { ...context, fail })
        returned = true
      } finally {
        for (const { key, open } of rounds)
          Object.assign(open, { ended: true, returned: returned && !failed.has(key.id) })
        append(
          this.#log,
          rounds.map(({ key, open }) => ({ ...key, kind: 'end', at: now(), returned: open.returned })),
        )
      }
    }
  }

  /**
   * Also writes down what the worker reports about completions. A refused one may have had no handler, because it was
   * released before.
   */
  hear(worker: WorkerEmitter): void {
    worker.on('completed', ({ queue, ids }) => {
      const entries = ids.map((id): Entry => {
        const fence = this.#take(queue, id, ({ returned }) => returned)
        const round = { process: this.#process, queue, id, at: now() }
        return fence === undefined ? { ...round, kind: 'empty' } : { ...round, kind: 'accepted', fence }
      })
      append(this.#log, entries)
    })
    worker.on('failed', ({ queue, id }) => void this.#take(queue, id, ({ ended }) => ended))
    worker.on('refused', ({ queue, id }) => {
      const fence = this.#take(queue, id, ({ ended }) => ended)
      if (fence === undefined) return
      append(this.#log, [{ process: this.#process, queue, id, at: now(), kind: 'refused', fence }])
    })
  }

  /** A round that failed without a report was released. */
  #begin(queue: string, id: string, fence: number) {
    const open = { fence, ended: false, returned: false }
    const before = this.#open.get(nameOf(queue, id)) ?? []
    this.#open.set(nameOf(queue, id), [...before.filter((one) => !one.ended || one.returned), open])
    return { open, key: { process: this.#process, queue, id, fence } }
  }

  /** Takes the newest round that the worker can mean, and returns its fence. The worker won't report it again. */
  #take(queue: string, id: string, fits: (round: OpenRound) => boolean): number | undefined {
    const rounds = this.#open.get(nameOf(queue, id)) ?? []
    const meant = rounds.findLast(fits)
    const others = rounds.filter((round) => round !== meant)
    if (others.length > 0) this.#open.set(nameOf(queue, id), others)
    else this.#open.delete(nameOf(queue, id))
    return meant?.fence
  }
}

function nameOf(queue: string, id: string): string {
  return `${queue}\0${id}`
}
