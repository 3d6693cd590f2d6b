import type { Batch, PerformContext, Worker } from '../../src/index.ts'
import { append, type Entry, now } from './handler-log.ts'

type Handler<Payload, Context> = (batch: Batch<Payload>, context: Context) => Promise<void>

/** Writes the log of handlers for one worker process. */
export class Diary {
  readonly #process: string
  readonly #log: string
  /** Of each id's newest round: before its outcome is stored, the id has no other. */
  readonly #fences = new Map<string, number>()

  /** `process` is a name that no other process has. */
  constructor(process: string, log: string) {
    this.#process = process
    this.#log = log
  }

  /** The handler, with its begins and ends written down. An id that it fails alone has not returned. */
  around<Payload, Context extends PerformContext>(
    queue: string,
    handler: Handler<Payload, Context>,
  ): Handler<Payload, Context> {
    return async (batch, context) => {
      const rounds = [...batch.keys()].map((id) => this.#round(queue, id, context.jobs.get(id)!.fence))
      append(
        this.#log,
        rounds.map((round) => ({ ...round, kind: 'begin', at: now(), payloads: batch.get(round.id)! })),
      )
      const failed = new Set<string>()
      const fail: PerformContext['fail'] = (id, error) => {
        failed.add(id)
        context.fail(id, error)
      }
      let returned = false
      try {
        await handler(batch, { ...context, fail })
        returned = true
      } finally {
        append(
          this.#log,
          rounds.map((round) => {
            return { ...round, kind: 'end', at: now(), returned: returned && !failed.has(round.id) }
          }),
        )
      }
    }
  }

  /** What the worker says of completions is written down too. */
  hear(worker: Worker): void {
    worker.on('completed', ({ queue, ids }) => this.#answer('accepted', queue, ids))
    worker.on('refused', ({ queue, id }) => this.#answer('refused', queue, [id]))
  }

  #round(queue: string, id: string, fence: number) {
    this.#fences.set(`${queue} ${id}`, fence)
    return { process: this.#process, queue, id, fence }
  }

  #answer(kind: 'accepted' | 'refused', queue: string, ids: readonly string[]): void {
    const entries = ids.map((id): Entry => {
      const round = { process: this.#process, queue, id, at: now() }
      const fence = this.#fences.get(`${queue} ${id}`)
      return fence === undefined ? { ...round, kind: 'empty' } : { ...round, kind, fence }
    })
    append(this.#log, entries)
  }
}
