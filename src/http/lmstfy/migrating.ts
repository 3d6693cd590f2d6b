import { type ClaimedJob, type FoundJob, LockstepError } from '../../index.ts'
import type { NewJob } from '../../job.ts'
import type { DeadSize } from '../../store/sizes.ts'
import type { Call } from '../call.ts'
import type { Ended, Jobs, Wanted } from './jobs.ts'

/** ms that a respawn waits for what open transactions hold. */
const PATIENCE = 5_000
/** ms that jobs of the old pool may wait for those of the new one that go with them. */
const LONGEST_LOOK = 1_000

/** Jobs that move from one pool to another: new ones go to the new pool, and those of the old one are handed over first. */
export class Migrating implements Jobs {
  readonly #old: Jobs
  readonly #new: Jobs
  /** Of jobs that are in work: where they came from. */
  readonly #origins = new WeakMap<ClaimedJob, Jobs>()

  constructor(old: Jobs, to: Jobs) {
    this.#old = old
    this.#new = to
  }

  publish(queue: string, jobs: readonly NewJob<string>[]): Promise<void> {
    return this.#new.publish(queue, jobs)
  }

  async consume(wanted: Wanted): Promise<ClaimedJob<string>[]> {
    const atOnce = await this.#from(this.#old, { ...wanted, wait: 0 })
    if (atOnce.length === 0) return this.#first(wanted)
    const count = wanted.count - atOnce.length
    return count === 0 ? atOnce : [...atOnce, ...(await this.#rest({ ...wanted, count }))]
  }

  handed(job: ClaimedJob, call: Call): void {
    this.#originOf(job).handed(job, call)
  }

  async release(jobs: readonly ClaimedJob[]): Promise<void> {
    await Promise.all(jobs.map((job) => this.#originOf(job).release([job])))
  }

  end(queue: string, id: string, call: Call): Promise<Ended | undefined> {
    return oneOf([this.#old.end(queue, id, call), this.#new.end(queue, id, call)])
  }

  waitForPushes(queue: string, id: string, signal: AbortSignal): Promise<boolean> {
    return oneOf([this.#old, this.#new].map((pool) => pool.waitForPushes(queue, id, signal)))
  }

  async find(queue: string, id: string): Promise<FoundJob<string>[]> {
    return (await Promise.all([this.#old.find(queue, id), this.#new.find(queue, id)])).flat()
  }

  async head(queue: string): Promise<FoundJob<string> | undefined> {
    return (await this.#old.head(queue)) ?? this.#new.head(queue)
  }

  async countReady(queue: string): Promise<number> {
    const [old, recent] = await Promise.all([this.#old.countReady(queue), this.#new.countReady(queue)])
    return old + recent
  }

  async sizeOfMorgue(queue: string): Promise<Omit<DeadSize, 'ms'>> {
    const [old, recent] = await Promise.all([this.#old.sizeOfMorgue(queue), this.#new.sizeOfMorgue(queue)])
    return { count: old.count + recent.count, oldest: old.oldest ?? recent.oldest }
  }

  /** Where all dead jobs of one pool are held, the other one has its turn, and both no more time than one. */
  async respawn(queue: string, most: number, ttl: number): Promise<number> {
    const until = performance.now() + PATIENCE
    let [count, held]: [number, unknown] = [0, undefined]
    for (const pool of [this.#old, this.#new])
      try {
        if (count < most) count += await pool.respawn(queue, most - count, ttl, until)
      } catch (error) {
        if (!(error instanceof LockstepError && error.code === 'LOCKSTEP_LOCKED')) throw error
        held = error
      }
    if (count === 0 && held !== undefined) throw held
    return count
  }

  async deleteDead(queue: string, most: number): Promise<number> {
    const old = await this.#old.deleteDead(queue, most)
    return old < most ? old + (await this.#new.deleteDead(queue, most - old)) : old
  }

  async destroy(queue: string): Promise<void> {
    await Promise.all([this.#old.destroy(queue), this.#new.destroy(queue)])
  }

  /** What the new pool has at once. Jobs of the old one are claimed by now, so no failure of the new one may hold them up. */
  async #rest(wanted: Wanted): Promise<ClaimedJob<string>[]> {
    const late = AbortSignal.timeout(LONGEST_LOOK)
    const signal = AbortSignal.any([wanted.signal, late])
    const looked = this.#from(this.#new, { ...wanted, wait: 0, signal }).then(async (jobs) => {
      if (!late.aborted) return jobs
      await this.#new.release(jobs)
      return []
    })
    const given = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve()))
    return (await Promise.race([looked.catch(() => []), given])) ?? []
  }

  /** Waits in both. The first that brings jobs, or fails, ends the wait in the other. What that brings all the same is given back. */
  #first(wanted: Wanted): Promise<ClaimedJob<string>[]> {
    const either = new AbortController()
    const signal = AbortSignal.any([wanted.signal, either.signal])
    return new Promise((resolve, reject) => {
      const ask = async (pool: Jobs) => {
        const jobs = await this.#from(pool, { ...wanted, signal })
        if (either.signal.aborted) await pool.release(jobs)
        else if (jobs.length > 0) {
          either.abort()
          resolve(jobs)
        }
      }
      Promise.all([ask(this.#old), ask(this.#new)]).then(
        () => resolve([]),
        (error: unknown) => {
          either.abort()
          reject(error)
        },
      )
    })
  }

  async #from(pool: Jobs, wanted: Wanted): Promise<ClaimedJob<string>[]> {
    const jobs = await pool.consume(wanted)
    for (const job of jobs) this.#origins.set(job, pool)
    return jobs
  }

  #originOf(job: ClaimedJob): Jobs {
    return this.#origins.get(job) ?? this.#new
  }
}

/** A job is in one pool only: where it was found there, the other one isn't needed, and may be down. */
async function oneOf<Found>(asked: readonly Promise<Found>[]): Promise<Found> {
  const found = asked.map(async (one) => (await one) || Promise.reject(new Error('it is not there')))
  return Promise.any(found).catch(async () => (await Promise.all(asked))[0]!)
}
