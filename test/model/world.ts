import { expect } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import type { Model } from './model.ts'
import { isNow, momentOf, type Real, type RealJob } from './real.ts'
import { alive, type Claim, type Entry, FUTURE, type Job, textOf, textOfAttempts } from './words.ts'

/** A claim on both sides. */
export interface Held {
  readonly claim: Claim
  readonly round: Round
}

/** Model and product side by side, and the claims that the sequence holds. */
export class World {
  readonly model: Model
  readonly real: Real
  readonly held: Held[] = []
  shards: number
  /** By id: the shard that the product has chosen. */
  readonly shardOf = new Map<string, number>()

  constructor(model: Model, real: Real, shards: number) {
    this.model = model
    this.real = real
    this.shards = shards
  }

  async join(): Promise<void> {
    this.model.alive.push(true)
    await this.real.join()
  }

  /** Expects both sides to have the same jobs with the same numbers and sets, and the same dead payloads. */
  async compare(): Promise<void> {
    const rows = await this.real.jobs()
    const jobs = [...this.model.jobs.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
    expect(rows.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    for (const [place, job] of jobs.entries()) await this.#compareJob(rows[place]!, job)
    const dead = [...this.model.morgue.dead.values()]
    expect(await this.real.dead()).toEqual(
      dead
        .map(
          ({ id, tenant, error, attempts, ...entry }) =>
            `${id} of ${tenant ?? 'nobody'}: ${textOf({ ...entry, expiry: 'never' })} ${error} ${textOfAttempts(attempts)}`,
        )
        .sort(),
    )
    expect(await this.real.strays()).toEqual([])
    expect(await this.real.reached()).toEqual(this.model.tenants.reached(this.model.inWork()))
    await this.#compareEntries()
  }

  /** Compares what people see, after the times have been settled. */
  async #compareEntries(): Promise<void> {
    const entries = this.model.entries()
    const found = await this.real.entries()
    expect(found.map(({ id, state }) => `${id} ${state}`)).toEqual(
      entries.map(({ id, state }) => `${id} ${state}`),
    )
    for (const [place, { set, performIn, ...entry }] of entries.entries()) {
      const { payloads, ...shown } = found[place]!
      expect(shown).toMatchObject({ ...entry, performIn: new Date(momentOf(performIn)) })
      expectOrder(
        payloads.map(({ payload, score, headers, expiresIn = Number.POSITIVE_INFINITY }) => {
          if (expiresIn <= Date.now()) return `${payload}!`
          const expiry = Number.isFinite(expiresIn) ? 'later' : 'never'
          return textOf({
            payload: payload as string,
            score,
            mark: (headers?.mark ?? null) as string | null,
            expiry,
          })
        }),
        set,
      )
    }
    const waiting = entries.filter(({ state }) => state === 'waiting')
    expect(await this.real.counts()).toEqual({
      view: waiting.length,
      waiting: waiting.length,
      fresh: waiting.filter(({ retryCount }) => retryCount < 0).length,
      working: entries.length - waiting.length,
    })
  }

  async #compareJob(row: RealJob, job: Job): Promise<void> {
    const { id, tenant, lane, retryCount, crashes, error } = job
    expect(row).toMatchObject({ id, tenant, lane, retryCount, crashes, error })
    expect(row.claimedBy).toBe(job.claim ? this.real.claimers[job.claim.process]!.processId : null)
    expect(row.shard).toBeLessThan(this.shards)
    this.shardOf.set(id, row.shard)
    expectOrder(row.set, job.set)
    expectOrder(row.next, job.next)
    await this.#compareTime(id, 'perform_in', row.performIn, job.performIn)
    expect(row.nextPerformIn === null).toBe(job.nextPerformIn === null)
    if (job.nextPerformIn !== null)
      await this.#compareTime(id, 'next_perform_in', row.nextPerformIn!, job.nextPerformIn)
  }

  /** If the model says "now", the product must have taken the time from the clock. */
  async #compareTime(id: string, column: 'perform_in' | 'next_perform_in', real: number, tick: number) {
    if (!isNow(real)) return expect([id, column, real]).toEqual([id, column, tick])
    expect([id, column, tick % FUTURE > NOW_FROM, tick >= FUTURE]).toEqual([id, column, true, real > FUTURE])
    await this.real.settle(id, column, tick)
  }
}

/** Times that pushes name are below; the model's "now" is above. */
const NOW_FROM = 1_000

/**
 * Expects the model's order, in which entries with the same score and `seq` may change places. Of what has expired only the
 * payload counts: nobody is handed it, and it may lie there once or twice.
 */
export function expectOrder(all: readonly string[], entries: readonly Entry[]): void {
  const isGone = (text: string) => text.endsWith('!')
  const gone = entries.filter(({ expiry }) => expiry === 'past').map(({ payload }) => `${payload}!`)
  expect(all.filter(isGone).sort()).toEqual(gone.sort())
  const [real, set] = [all.filter((text) => !isGone(text)), alive(entries)]
  const groups = new Map<string, string[]>()
  for (const entry of set) {
    const key = `${entry.score} ${entry.seq}`
    groups.set(key, [...(groups.get(key) ?? []), textOf(entry)])
  }
  let from = 0
  for (const group of groups.values()) {
    expect(real.slice(from, from + group.length).sort()).toEqual(group.sort())
    from += group.length
  }
  expect(real).toHaveLength(from)
}
