import type { Batch, TransactionalContext, Worker } from '../../src/index.ts'
import { now, type Run } from './handler-log.ts'

type Handler = (batch: Batch<unknown>, context: TransactionalContext) => unknown

/** Records handler runs of workers in this process, as the log of handlers does for several processes. */
export class Recorder {
  readonly runs: Run[] = []
  #hearing = false

  /** Wraps a handler so that its runs are recorded. A run that returned counts as accepted, unless workers are heard. */
  around(handler: Handler = () => {}): Handler {
    return async (batch, context) => {
      const began = [...batch].map(([id, payloads]): Run => {
        const { fence } = context.jobs.get(id)!
        const open = { end: undefined, returned: false, accepted: false, refused: false }
        return { process: 'this', queue: '', id, fence, payloads, begin: now(), ...open }
      })
      this.runs.push(...began)
      let returned = false
      try {
        await handler(batch, context)
        returned = true
      } finally {
        const accepted = returned && !this.#hearing
        for (const run of began) Object.assign(run, { end: now(), returned, accepted })
      }
    }
  }

  /** From now on, what workers report counts: a handler may return and its completion get lost. */
  hear(worker: Worker): void {
    this.#hearing = true
    worker.on('completed', ({ ids }) => {
      for (const id of ids) {
        const run = this.runs.findLast((one) => one.id === id && one.returned && !one.accepted)
        if (run) Object.assign(run, { accepted: true })
      }
    })
  }

  of(id: string): Run[] {
    return this.runs.filter((run) => run.id === id)
  }

  /** Ids in the order in which their runs began. */
  get ids(): string[] {
    return this.runs.map(({ id }) => id)
  }
}
