import pc from 'picocolors'
import { DemoProcess } from './process.ts'
import type { Screen } from './screen.ts'

export interface DemoProcessesOptions {
  readonly connectionString: string
  readonly naive: boolean
  readonly events: number
  readonly screen: Screen
  /** Every process that was started, for the cleanup. */
  readonly processes: DemoProcess[]
  /** No process may start once this is aborted. */
  readonly signal: AbortSignal
}

/** The processes of the demo: one that sends updates, and workers that start and end. */
export class DemoProcesses {
  readonly workers: DemoProcess[] = []
  readonly #options: DemoProcessesOptions
  #closing = false

  constructor(options: DemoProcessesOptions) {
    this.#options = options
  }

  startFeed(): DemoProcess {
    return this.#start('feed-process', 'the feed')
  }

  /** Resolves when the worker has started. */
  async startWorker(): Promise<DemoProcess> {
    const worker = this.#start('worker-process', `worker ${this.workers.length + 1}`)
    this.workers.push(worker)
    await worker.ready()
    this.#options.screen.tell(`${worker.name} (pid ${worker.pid}) is at work`)
    void worker.gone.then(() => this.#replace(worker))
    return worker
  }

  /** Lets all workers finish their jobs, and ends them. */
  async stopWorkers(): Promise<void> {
    this.#closing = true
    const present = this.workers.filter(({ goneAt }) => goneAt === Number.POSITIVE_INFINITY)
    await Promise.all(present.map((worker) => this.#stop(worker)))
  }

  async #stop(worker: DemoProcess): Promise<void> {
    if (await worker.stop()) return
    this.#options.screen.tell(pc.yellow(`${worker.name} did not end as asked: ${worker.ending}`))
  }

  /** If the machine froze a worker past its lease, the worker ends itself. As in production, another one replaces it. */
  async #replace(worker: DemoProcess): Promise<void> {
    if (worker.wasEnded || this.#closing) return
    this.#options.screen.tell(
      pc.yellow(`${worker.name} ended by itself (${worker.ending}): starting another`),
    )
    await this.startWorker().catch(() => {})
  }

  #start(file: 'worker-process' | 'feed-process', name: string): DemoProcess {
    const { connectionString, naive, events, processes, signal } = this.#options
    signal.throwIfAborted()
    const started = new DemoProcess(file, { name, connectionString, naive, events })
    processes.push(started)
    return started
  }
}
