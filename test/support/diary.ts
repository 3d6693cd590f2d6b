import type { Batch, PerformContext, ServerMiddleware } from '../../src/index.ts'
import type { WorkerEmitter } from '../../src/worker/events.ts'
import { append, type Entry, now } from './handler-log.ts'

type Handler<Payload, Context> = (batch: Batch<Payload>, context: Context) => Promise<void>

/** A round of an id that the worker has said nothing of yet. */
interface OpenRound {
  readonly fence: number
  ended: boolean
  returned: boolean
}

/** When the worker was about to look at its lease for the last time, and whether anything has waited since. */
interface Asked {
  readonly at: bigint
  waited: boolean
}

/** Writes the log of handlers for one worker process. */
export class Diary {
  readonly #process: string
  readonly #log: string
  /** Of each id, the newest last: a lost lease's outcome may be under way while the id has its next round here. */
  readonly #open = new Map<string, OpenRound[]>()
  readonly #asked = new WeakMap<PerformContext, Asked>()

  /** `process` is a name that no other process has. */
  constructor(process: string, log: string) {
    this.#process = process
    this.#log = log
  }

  /** The innermost middleware: between it and the handler's first line the worker looks at its lease, and nothing waits. */
  readonly asking: ServerMiddleware = ({ context }, perform) => {
    const asked = { at: now(), waited: false }
    queueMicrotask(() => {
      asked.waited = true
    })
    this.#asked.set(context, asked)
    return perform()
  }

  /** The handler, with its begins and ends written down. An id that it fails alone has not returned. */
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
   * What the worker says of completions is written down too. One that is refused may have had no handler: it was
   * given back before.
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

  /** A round that failed without a word was given back. */
  #begin(queue: string, id: string, fence: number) {
    const open = { fence, ended: false, returned: false }
    const before = this.#open.get(nameOf(queue, id)) ?? []
    this.#open.set(nameOf(queue, id), [...before.filter((one) => !one.ended || one.returned), open])
    return { open, key: { process: this.#process, queue, id, fence } }
  }

  /** The fence of the newest round that the worker can mean, of which it won't speak again. */
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
