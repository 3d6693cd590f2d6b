import { LockstepError } from '../errors.ts'
import { UnderWay } from '../promises.ts'
import type { Queue } from '../queue.ts'
import type { ReadPayload } from '../store/claim.ts'
import type { WorkerHome } from '../worker/options.ts'
import type { ConsumedQueue } from './consumed-queue.ts'
import type { ConsumerEngine } from './engine.ts'
import { leftOutOf } from './left-out.ts'
import {
  type ClaimedJob,
  type ClaimedJobs,
  type ClaimOptions,
  type ClaimReference,
  type ClaimSettings,
  type CompleteOptions,
  type ConsumerOptions,
  type ConsumerSettings,
  checkCompleteOptions,
  checkFailOptions,
  checkLease,
  checkReference,
  claimSettings,
  consumerSettings,
  type FailOptions,
} from './options.ts'
import { Request } from './request.ts'

/**
 * Claims jobs and settles them without a handler. Each claim has a lease of its own, and is told by its queue, id and fence: any
 * consumer may settle it, in whichever process. Workers may serve the same queues.
 */
export class Consumer {
  readonly #settings: ConsumerSettings
  readonly #home: WorkerHome
  readonly #read: ReadPayload | undefined
  readonly #calls = new UnderWay()
  #starting: Promise<ConsumerEngine> | undefined
  #stopping: Promise<void> | undefined

  constructor(
    options: ConsumerOptions,
    home: WorkerHome,
    read?: ReadPayload,
    define?: (name: string) => Queue,
  ) {
    this.#settings = consumerSettings(options, define)
    this.#home = home
    this.#read = read
  }

  /**
   * Claims up to `count` jobs that are due, and resolves to them; to an empty list if there are none, or none come within `wait`
   * ms. Each has all that has piled up for its id.
   *
   * A claim that was neither settled nor extended by the end of its lease counts as a failure, and the job waits again at once:
   * within a second of that, as long as any consumer or worker runs. The lease runs by the server's clock.
   * @throws OptionError; LockstepError `LOCKSTEP_BAD_QUEUE`, or `LOCKSTEP_CLOSED` after `stop()`; DatabaseError. If the
   * connection broke, jobs may be claimed that nobody has been told of, until their leases end. The reason of `signal` if that is
   * aborted: nothing is claimed then.
   */
  async claim<P = unknown, Handed = unknown>(options: ClaimOptions<P, Handed>): Promise<ClaimedJobs<P>> {
    const settings = claimSettings(options as ClaimOptions, this.#settings)
    settings.signal?.throwIfAborted()
    return this.#calls.watch(this.#claim(settings)) as Promise<ClaimedJobs<P>>
  }

  /**
   * Ends a claim with success: the job is done, or its next round waits. Resolves to whether the claim was still held. If not,
   * this changes nothing: its lease has ended, or it was settled before, perhaps by a call whose answer was lost.
   * @throws OptionError; LockstepError `LOCKSTEP_UNKNOWN_QUEUE`, `LOCKSTEP_BAD_RESULT`; DatabaseError `LOCKSTEP_LOCKED` if a transaction that has pushed
   * the id stays open for five seconds: the claim stands
   */
  async complete(claim: ClaimReference, options: CompleteOptions = {}): Promise<boolean> {
    const { queue } = checkReference(claim, 'complete')
    const kept = checkCompleteOptions(options, this.#settings.queues.get(queue)?.keepResult)
    return this.#settle(claim, 'complete', ({ settler }, key) =>
      settler.complete(key, leftOutOf(claim), kept),
    )
  }

  /**
   * Ends a claim with a failure (R6, R7), as if a handler had thrown `error`: so it may be a `Discard`, `Snooze` or `RetryIn`, too.
   * Resolves, and throws, like `complete`.
   */
  async fail(claim: ClaimReference, error: unknown, options: FailOptions = {}): Promise<boolean> {
    const retryIn = checkFailOptions(options)
    const queue = this.#definitionOf(claim)
    return this.#settle(claim, 'fail', ({ settler }, key) => settler.fail(queue, key, error, retryIn))
  }

  /** Gives a job back with its numbers unchanged. Resolves, and throws, like `complete`. */
  release(claim: ClaimReference): Promise<boolean> {
    return this.#settle(claim, 'release', ({ settler }, key) => settler.release(key))
  }

  /**
   * Lets a lease end no earlier than `lease` ms from now; it never ends earlier than before. Default 30,000. Resolves, and throws,
   * like `complete`.
   */
  extend(claim: ClaimReference, lease = 30_000): Promise<boolean> {
    checkLease(lease, 'extend')
    return this.#settle(claim, 'extend', ({ settler }, key) => settler.extend(key, lease))
  }

  /** Answers claims that wait, lets calls under way end, and ends all connections. What was claimed stays so. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    const engine = await this.#starting?.catch(() => undefined)
    for (const request of engine?.requests.clear() ?? []) request.end()
    await this.#calls.ended()
    await engine?.stop()
  }

  #started(): Promise<ConsumerEngine> {
    if (this.#stopping)
      throw new LockstepError('LOCKSTEP_CLOSED', 'the consumer was stopped: create another one')
    this.#starting ??= this.#start().catch((error) => {
      // The next call tries again.
      this.#starting = undefined
      throw error
    })
    return this.#starting
  }

  async #start(): Promise<ConsumerEngine> {
    // A producer loads none of it.
    const { ConsumerEngine } = await import('./engine.ts')
    const engine = new ConsumerEngine(this.#settings, this.#home, this.#read)
    try {
      await engine.start()
      return engine
    } catch (error) {
      await engine.stop()
      throw error
    }
  }

  async #claim(settings: ClaimSettings): Promise<ClaimedJob[]> {
    const engine = await this.#started()
    const open = () => Promise.all(settings.queues.map((queue) => engine.queues.open(queue)))
    let queues = await open()
    // One may have been deleted or forgotten while others were opened: nobody would look for its jobs.
    while (!queues.every((queue) => engine.queues.isOpen(queue))) queues = await open()
    settings.signal?.throwIfAborted()
    if (this.#stopping) return []
    const request = new Request(queues, settings)
    const abort = () => {
      engine.requests.remove(request)
      for (const { queue, id, fence } of request.abandon(settings.signal!.reason))
        void engine.release(queues.find((one) => one.queue.name === queue)!, [{ id, fence }])
    }
    settings.signal?.addEventListener('abort', abort, { once: true })
    engine.requests.add(request)
    // Nobody but `stop` waits for its end: the database may be slow to answer, and the caller may have gone by then.
    void this.#calls.watch(this.#look(engine, request, settings.wait))
    const giveUp = () => {
      request.isPatient = false
      engine.requests.answer()
    }
    const timer = settings.wait > 0 ? setTimeout(giveUp, settings.wait) : undefined
    try {
      const jobs = await request.answer
      return request.needsExtension ? await this.#extended(engine, queues, jobs, settings.lease) : jobs
    } finally {
      clearTimeout(timer)
      settings.signal?.removeEventListener('abort', abort)
    }
  }

  /** Those whose leases begin anew, since it took long to claim them all: those that have ended are others'. */
  async #extended(
    { settler }: ConsumerEngine,
    queues: readonly ConsumedQueue[],
    jobs: ClaimedJob[],
    lease: number,
  ): Promise<ClaimedJob[]> {
    const numbers = new Map(queues.map(({ queue, queueId }) => [queue.name, queueId]))
    const extend = ({ queue, id, fence }: ClaimedJob) =>
      settler.extend({ queueId: numbers.get(queue)!, id, fence }, lease)
    try {
      const held = await Promise.all(jobs.map(extend))
      return jobs.filter((_, index) => held[index])
    } catch (error) {
      this.#home.logger.warn(
        { error: (error as Error).message },
        'leases of claimed jobs could not be extended',
      )
      return jobs
    }
  }

  /**
   * It waits until somebody has looked, and then only if it has time. What is known to be due needs no look, unless it turns out to
   * be gone: a wake-up may tell of a job that an earlier claim has taken.
   */
  async #look({ requests, look }: ConsumerEngine, request: Request, wait: number): Promise<void> {
    try {
      request.isTrying = requests.isDue(request)
      if (request.isTrying) await request.tried
      if (request.left > 0 && !request.hasTaken) {
        await Promise.all(request.queues.map(look))
        request.looked = request.queues.length
      }
      request.isPatient = wait > 0
      requests.answer()
    } catch (error) {
      requests.remove(request)
      request.fail(error)
    }
  }

  async #settle(
    claim: ClaimReference,
    what: string,
    settle: (engine: ConsumerEngine, key: { queueId: number; id: string; fence: number }) => Promise<boolean>,
  ): Promise<boolean> {
    const { queue, id, fence } = checkReference(claim, what)
    const run = async () => {
      const engine = await this.#started()
      const queueId = await engine.queues.idOf(queue)
      if (queueId === undefined)
        throw new LockstepError('LOCKSTEP_UNKNOWN_QUEUE', `queue "${queue}" does not exist`)
      if (await settle(engine, { queueId, id, fence })) return true
      // A queue that was deleted and made again has another number.
      const now = await engine.queues.idNow(queue)
      return now !== undefined && now !== queueId && settle(engine, { queueId: now, id, fence })
    }
    return this.#calls.watch(run())
  }

  #definitionOf(claim: ClaimReference): Queue {
    const { queue } = checkReference(claim, 'fail')
    return this.#settings.queues.get(queue) ?? this.#settings.define(queue)
  }
}
