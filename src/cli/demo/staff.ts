import pc from 'picocolors'
import { Member } from './crew.ts'
import type { Screen } from './screen.ts'

export interface StaffOptions {
  readonly connectionString: string
  readonly naive: boolean
  readonly events: number
  readonly screen: Screen
  /** Every process that was started, for the cleanup. */
  readonly members: Member[]
  /** No process may start once this is aborted. */
  readonly signal: AbortSignal
}

/** The processes of the demo: one that sends updates, and workers that start and end. */
export class Staff {
  readonly workers: Member[] = []
  readonly #options: StaffOptions
  #closing = false

  constructor(options: StaffOptions) {
    this.#options = options
  }

  startFeed(): Member {
    return this.#start('feed-process', 'the feed')
  }

  /** Resolves when the worker has started. */
  async hire(): Promise<Member> {
    const worker = this.#start('worker-process', `worker ${this.workers.length + 1}`)
    this.workers.push(worker)
    await worker.ready()
    this.#options.screen.tell(`${worker.name} (pid ${worker.pid}) is at work`)
    void worker.gone.then(() => this.#replace(worker))
    return worker
  }

  /** Lets all workers finish their jobs, and ends them. */
  async dismiss(): Promise<void> {
    this.#closing = true
    const present = this.workers.filter(({ goneAt }) => goneAt === Number.POSITIVE_INFINITY)
    await Promise.all(present.map((worker) => this.#stop(worker)))
  }

  async #stop(worker: Member): Promise<void> {
    if (await worker.stop()) return
    this.#options.screen.tell(pc.yellow(`${worker.name} did not end as asked: ${worker.ending}`))
  }

  /** If the machine froze a worker past its lease, the worker ends itself. As in production, another one replaces it. */
  async #replace(worker: Member): Promise<void> {
    if (worker.dismissed || this.#closing) return
    this.#options.screen.tell(
      pc.yellow(`${worker.name} ended by itself (${worker.ending}): starting another`),
    )
    await this.hire().catch(() => {})
  }

  #start(file: 'worker-process' | 'feed-process', name: string): Member {
    const { connectionString, naive, events, members, signal } = this.#options
    signal.throwIfAborted()
    const member = new Member(file, { name, connectionString, naive, events })
    members.push(member)
    return member
  }
}
