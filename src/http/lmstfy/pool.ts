import { Insight } from '../../admin/insight.ts'
import type { ClaimedJob, Consumer, FoundJob, Lockstep, Queue } from '../../index.ts'
import { defineQueue, LockstepError } from '../../index.ts'
import type { NewJob } from '../../job.ts'
import { insideOf } from '../../lockstep.ts'
import { isStorable } from '../../options.ts'
import type { Database } from '../../postgres/database.ts'
import { SharedByQueue } from '../../serving/shared.ts'
import { expireLeased } from '../../store/expire-leased.ts'
import { respawnInTime } from '../../store/respawn.ts'
import { countReady, type DeadSize, namesOfQueues, type Size, sizeOfMorgue } from '../../store/sizes.ts'
import { waitForPushes } from '../../store/wait-for-pushes.ts'
import type { Call } from '../call.ts'
import { firstLiving } from '../living.ts'
import { SHARDS } from './definition.ts'
import { Deliveries, type Delivery } from './deliveries.ts'
import { TRIES_HEADER } from './job.ts'
import type { Ended, Jobs, Wanted } from './jobs.ts'
import { partsOf } from './names.ts'
import { Waits } from './waits.ts'

const MOST_DEFINITIONS = 10_000
/** Jobs that a batch of administration takes at once. */
const MOST_AT_ONCE = 1_000
/** ms; what a claim may ask for. */
const LONGEST_LEASE = 7 * 24 * 3600 * 1000
const LONGEST_WAIT = 24 * 3600 * 1000
/** How often a job is looked at that others change in between. */
const MOST_LOOKS = 10

const costOf = ({ ms }: Size) => ms

/** A database in which jobs are. */
export class Pool implements Jobs {
  readonly name: string
  readonly lockstep: Lockstep
  readonly database: Database
  readonly #consumer: Consumer
  readonly #insight: Insight
  readonly #definitions = new Map<string, Queue<string>>()
  readonly #deliveries = new Deliveries()
  readonly #waits = new Waits()
  /** Whoever reaches the gateway may ask for sizes, without a token. */
  readonly #ready = new SharedByQueue((queue) => countReady(this.database, queue), costOf)
  readonly #dead = new SharedByQueue((queue) => sizeOfMorgue(this.database, queue), costOf)

  constructor(name: string, lockstep: Lockstep) {
    this.name = name
    this.lockstep = lockstep
    this.#consumer = lockstep.createConsumer({ triesHeader: TRIES_HEADER })
    const { database, watch } = insideOf(lockstep)
    this.database = database
    this.#insight = new Insight(database, watch)
  }

  async publish(queue: string, jobs: readonly NewJob<string>[]): Promise<void> {
    await this.lockstep.enqueue(this.#definitionOf(queue), jobs.length === 1 ? jobs[0]! : jobs)
  }

  consume({ queues, count, lease, wait, signal }: Wanted): Promise<ClaimedJob<string>[]> {
    return this.#waits.during(signal, async (ending) => {
      const claimed = await this.#consumer.claim({
        queues: queues.map((name) => this.#definitionOf(name)),
        count,
        lease: Math.min(lease, LONGEST_LEASE),
        wait: this.#waits.areOver ? 0 : Math.min(wait, LONGEST_WAIT),
        signal: ending,
      })
      return claimed as ClaimedJob<string>[]
    })
  }

  handed(job: ClaimedJob, call: Call): void {
    this.#deliveries.add(job.queue, job.id, job.fence, call)
  }

  async release(jobs: readonly ClaimedJob[]): Promise<void> {
    await Promise.all(jobs.map((job) => this.#consumer.release(job)))
  }

  async end(queue: string, id: string, call: Call): Promise<Ended | undefined> {
    if (!isStorable(id)) return undefined
    const delivery = this.#deliveries.of(queue, id, call)
    if (delivery && (await this.#complete(queue, id, delivery.fence))) return 'claim'
    // Nothing is locked between a look and what is done: meanwhile, the job may be claimed, given back or die.
    let [job] = await this.find(queue, id)
    for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
      const ended = await this.#endAs(job, queue, id, delivery)
      if (ended) return ended
      const [next] = await this.find(queue, id)
      // A dead job may have been respawned meanwhile.
      if (!job && !next) return undefined
      job = next
    }
    return undefined
  }

  async waitForPushes(queue: string, id: string, signal: AbortSignal): Promise<boolean> {
    return isStorable(id) && waitForPushes(this.database, queue, id, signal)
  }

  async find(queue: string, id: string): Promise<FoundJob<string>[]> {
    if (!isStorable(id)) return []
    return orNothing(async () => (await this.lockstep.find<string>(queue, { ids: [id] })).items, [])
  }

  async head(queue: string): Promise<FoundJob<string> | undefined> {
    const now = new Date()
    const due = { state: 'waiting', performIn: { to: now }, by: 'performIn', limit: 1 } as const
    const look = () =>
      firstLiving(
        1,
        (after) =>
          this.lockstep.find<string>(
            queue,
            after === undefined ? due : { ...due, after, limit: MOST_AT_ONCE },
          ),
        ({ payloads }) => payloads.every(({ expiresIn }) => (expiresIn ?? Infinity) <= now.getTime()),
      )
    return (await orNothing(look, []))[0]
  }

  async countReady(queue: string): Promise<number> {
    return (await this.#ready.get(queue)).value.count
  }

  async sizeOfMorgue(queue: string): Promise<DeadSize> {
    return (await this.#dead.get(queue)).value
  }

  async respawn(queue: string, most: number, ttl: number, until?: number): Promise<number> {
    const headers = { tries: 1, expires: ttl > 0 ? Date.now() + ttl * 1000 : 0 }
    const count = await respawnInTime(this.database, queue, most, headers, until)
    this.#forgetSizes(queue)
    return count
  }

  async deleteDead(queue: string, most: number): Promise<number> {
    let count = 0
    await orNothing(async () => {
      while (count < most) {
        const limit = Math.min(most - count, MOST_AT_ONCE)
        const { items } = await this.#insight.dead(queue, { limit }, { length: 1, attempts: false })
        // A job that was pushed otherwise may have several dead payloads: the ids alone would name them all.
        const [ids, keys] = [items.map(({ id }) => id), items.map(({ key }) => key)]
        // Somebody else may delete the same ones.
        if (items.length > 0) count += (await this.lockstep.deleteDead(queue, { ids, keys })).done
        if (items.length < limit) return
      }
    }, undefined)
    this.#forgetSizes(queue)
    return count
  }

  async destroy(queue: string): Promise<void> {
    await orNothing(async () => void (await this.lockstep.delete(queue, {})), undefined)
    this.#forgetSizes(queue)
  }

  /** By namespace. */
  async listQueues(): Promise<ReadonlyMap<string, readonly string[]>> {
    const queues = new Map<string, string[]>()
    for (const name of await namesOfQueues(this.database)) {
      const parts = partsOf(name)
      if (!parts) continue
      const { namespace, queue } = parts
      queues.set(namespace, [...(queues.get(namespace) ?? []), queue])
    }
    return queues
  }

  /** Answers consumes that wait; from now on, none waits. */
  quiet(): void {
    this.#waits.end()
  }

  async stop(): Promise<void> {
    await this.#consumer.stop()
  }

  /** Ends a job that was seen so; undefined: in the morgue, or nowhere. Resolves to undefined if it isn't so any more. */
  async #endAs(
    job: FoundJob | undefined,
    queue: string,
    id: string,
    delivery: Delivery | undefined,
  ): Promise<Ended | undefined> {
    if (!job) return (await this.#deleteDeadOnes(queue, id)) ? 'job' : undefined
    if (job.state !== 'working') return (await this.#deleteWaiting(queue, id)) ? 'job' : undefined
    const fence = job.fence!
    // This gateway has handed the job to somebody else since. Either the client is late, so the other must not be disturbed, or it
    // is the other, by another connection, and what it has acknowledged must not come again. Both hold if the job isn't handed over
    // once more, whatever becomes of the claim.
    if (delivery && this.#deliveries.has(queue, id, fence))
      return (await expireLeased(this.database, queue, id, fence)) ? 'job' : undefined
    return (await this.#complete(queue, id, fence)) ? 'claim' : undefined
  }

  async #complete(queue: string, id: string, fence: number): Promise<boolean> {
    const isEnded = await orNothing(() => this.#consumer.complete({ queue, id, fence }), false)
    if (isEnded) this.#deliveries.forget(queue, id)
    return isEnded
  }

  /** Who has changed a queue as a whole sees it. */
  #forgetSizes(queue: string): void {
    this.#ready.forget(queue)
    this.#dead.forget(queue)
  }

  /** Who acknowledges a dead job was done with it, only too late. */
  #deleteDeadOnes(queue: string, id: string): Promise<boolean> {
    return orNothing(async () => (await this.lockstep.deleteDead(queue, { ids: [id] })).done > 0, false)
  }

  #deleteWaiting(queue: string, id: string): Promise<boolean> {
    return orNothing(async () => (await this.lockstep.delete(queue, { ids: [id] })).done > 0, false)
  }

  #definitionOf(name: string): Queue<string> {
    let queue = this.#definitions.get(name)
    if (!queue) {
      queue = defineQueue<string>(name, { shards: SHARDS, maxRetryCount: 0 })
      this.#definitions.set(name, queue)
      if (this.#definitions.size > MOST_DEFINITIONS)
        this.#definitions.delete(this.#definitions.keys().next().value!)
    }
    return queue
  }
}

/** A queue that nobody has used yet is empty. */
async function orNothing<Result>(look: () => Promise<Result>, nothing: Result): Promise<Result> {
  try {
    return await look()
  } catch (error) {
    if (error instanceof LockstepError && error.code === 'LOCKSTEP_UNKNOWN_QUEUE') return nothing
    throw error
  }
}
