import { Morgue } from './morgue.ts'
import { type Choice, Tenants } from './tenants.ts'
import {
  type Answer,
  alive,
  byId,
  type Claim,
  type Dead,
  type Entry,
  entriesOf,
  expiryOf,
  FUTURE,
  fitting,
  fresh,
  type Job,
  noted,
  type Placed,
  type Policy,
  type Retries,
  unite,
  type Waiting,
} from './words.ts'

/**
 * The rules R1 to R11 and R17 in memory, as plainly as they are written. Shares no code with what it judges.
 *
 * Whatever happens "now" happens at the next tick.
 */

export class Model {
  readonly policy: Policy
  readonly jobs = new Map<string, Job>()
  readonly morgue = new Morgue()
  readonly tenants: Tenants
  /** By process: whether its lease runs. */
  readonly alive: boolean[] = []
  /** The open transactions, each with the pushes that it will commit. It has locked the rows of their ids. */
  readonly open = new Map<number, Placed[]>()
  #tick = 1_000
  #seq = 0

  /** `lanes`: those of tenants in a queue without rules. */
  constructor(policy: Policy, lanes: ReadonlyMap<string, number>) {
    this.policy = policy
    this.tenants = new Tenants(policy.rules, policy.limits, lanes)
  }

  now(): number {
    this.#tick += 1
    return this.#tick
  }

  locked(id: string): boolean {
    return [...this.open.values()].some((pushes) => pushes.some((push) => push.id === id))
  }

  /** R1 to R3. If several are for one new id, the first decides the time, the tenant and the lane. */
  push(pushes: readonly Placed[]): void {
    for (const push of pushes) {
      const { id, payload, score, performIn, mark } = push
      if (push.counts) this.tenants.pushed(push)
      this.#seq += 1
      const entry = { payload, score, seq: this.#seq, mark, expiry: expiryOf(push) }
      const job = this.jobs.get(id)
      if (!job) {
        this.jobs.set(id, fresh(push, [entry]))
      } else if (job.claim) {
        job.next = unite(...job.next, entry)
        job.nextPerformIn ??= performIn
      } else job.set = unite(...job.set, entry)
    }
  }

  /** Whether the job is not in progress: it waits, or its process is dead. */
  free(job: Job): boolean {
    return job.claim === null || !this.alive[job.claim.process]
  }

  inWork(): Job[] {
    return [...this.jobs.values()].filter((job) => !this.free(job))
  }

  /** R9, R10. Skips locked rows, and what is over a limit. A job that may have killed a process is taken alone. */
  claim(process: number, lane: number, inShard: (id: string) => boolean): Choice<Claim> {
    if (!this.alive[process]) return { chosen: [], over: [] }
    const due = [...this.jobs.values()]
      .filter((job) => job.lane === lane && job.performIn < FUTURE && inShard(job.id) && this.free(job))
      .sort((a, b) => a.performIn - b.performIn || (a.id < b.id ? -1 : 1))
    const { batchSize } = this.policy
    const { chosen, over } = this.tenants.choose(due, this.inWork(), batchSize, ({ id }) => this.locked(id))
    const suspect = chosen.findIndex((job) => job.claim !== null || job.crashes > 0)
    const taken = suspect < 0 ? chosen : chosen.slice(0, Math.max(suspect, 1))
    return { chosen: taken.map((job) => this.#take(job, process)), over }
  }

  #take(job: Job, process: number): Claim {
    this.tenants.started(job)
    const rescued = job.claim !== null
    job.crashes += rescued ? 1 : 0
    if (rescued) job.attempts = noted(job, 'crash', null)
    job.set = unite(...job.set, ...job.next)
    job.next = []
    job.nextPerformIn = null
    const { id, retryCount, crashes, error } = job
    const handed = alive(job.set)
    const taken = handed.slice(0, fitting(handed, this.policy))
    job.claim = {
      id,
      process,
      taken,
      cut: handed.length > taken.length,
      retryCount,
      crashes,
      rescued,
      error,
    }
    return job.claim
  }

  /**
   * Entries with the same score and `seq`, as they come back together from the morgue, may be in any order. If a round
   * is cut among them, it has taken those that the product has taken. The first of these is the one that may die.
   */
  asTaken(claim: Claim, payloads: readonly unknown[]): Claim {
    const job = this.jobs.get(claim.id)!
    const { length } = claim.taken
    const place = ({ payload }: Entry) =>
      payloads.includes(payload) ? payloads.indexOf(payload) : payloads.length
    job.set = job.set.toSorted((a, b) => a.score - b.score || a.seq - b.seq || place(a) - place(b))
    job.claim = { ...claim, taken: alive(job.set).slice(0, length) }
    return job.claim
  }

  /** P6: the job, if the claim still holds it and its row is not locked. */
  #hold(claim: Claim): Job | 'held' | 'lost' {
    const job = this.jobs.get(claim.id)
    if (job?.claim !== claim) return 'lost'
    return this.locked(claim.id) ? 'held' : job
  }

  complete(claim: Claim): Answer {
    const job = this.#hold(claim)
    if (typeof job === 'string') return job
    const left = claim.cut ? job.set.filter((one) => !claim.taken.includes(one)) : []
    if (left.length === 0 && job.nextPerformIn === null) {
      this.jobs.delete(job.id)
      return undefined
    }
    const performIn = claim.cut ? this.now() : job.nextPerformIn!
    const clean = { retryCount: -1, error: null, crashes: 0, attempts: [] }
    this.#wait(job, { performIn, ...clean }, unite(...left, ...job.next))
    return 'again'
  }

  /** R4, R6: `later` delays the job until beyond what is due. R7 if the retries are used up. */
  fail(claim: Claim, error: string, later: boolean): Answer {
    const job = this.#hold(claim)
    if (typeof job === 'string') return job
    if (claim.retryCount + 1 >= this.policy.maxRetryCount) return this.#die(job, error)
    const performIn = this.now() + (later ? FUTURE : 0)
    const attempts = noted(job, 'failure', error)
    const numbers = { performIn, retryCount: job.retryCount + 1, error, crashes: 0, attempts }
    this.#wait(job, numbers, unite(...job.set, ...job.next))
    return 'again'
  }

  /** If nothing else is left, what was pushed meanwhile keeps its own time. */
  #die(job: Job, error: string): Answer {
    const lowest = alive(job.set)[0]
    const rest = job.set.filter((one) => one !== lowest)
    const attempts = noted(job, 'failure', error)
    if (lowest) this.morgue.bury(job, lowest, error, attempts)
    const performIn = rest.length > 0 ? this.now() : job.nextPerformIn
    if (performIn === null) {
      this.jobs.delete(job.id)
      return undefined
    }
    const numbers = { performIn, retryCount: -1, error, crashes: 0, attempts }
    this.#wait(job, numbers, unite(...rest, ...job.next))
    return 'again'
  }

  /** All that the round has taken goes to the morgue, in its order; the job goes on as after a success. */
  discard(claim: Claim, error: string): Answer {
    const job = this.#hold(claim)
    if (typeof job === 'string') return job
    const attempts = noted(job, 'failure', error)
    for (const one of claim.taken) this.morgue.bury(job, one, error, attempts)
    return this.complete(claim)
  }

  /** Later, with the numbers of failures unchanged. Its process has not died of it. */
  snooze(claim: Claim, later: boolean): Answer {
    const job = this.#hold(claim)
    if (typeof job === 'string') return job
    const performIn = this.now() + (later ? FUTURE : 0)
    this.#wait(job, { performIn, crashes: 0 }, unite(...job.set, ...job.next))
    return 'again'
  }

  /** R15: numbers unchanged. */
  release(claim: Claim): Answer {
    const job = this.#hold(claim)
    if (typeof job === 'string') return job
    this.#wait(job, {}, unite(...job.set, ...job.next))
    return 'again'
  }

  #wait(job: Job, numbers: Partial<Job>, set: Entry[]): void {
    Object.assign(job, numbers, { claim: null, set, next: [], nextPerformIn: null })
  }

  entries(): Waiting[] {
    return [...this.jobs.values()].sort(byId).flatMap((job) => entriesOf(job, this.free(job)))
  }

  /** R11, for all three actions: jobs in progress are not touched. Each action returns how many entries it changed. */
  delete(ids: readonly string[], retries: Retries): number {
    return this.#act(ids, retries, (job) => this.#takeOut(job))
  }

  kill(ids: readonly string[], retries: Retries): number {
    return this.#act(ids, retries, (job, entry) => {
      for (const one of alive(entry.set)) this.morgue.bury(job, one, entry.error ?? 'killed', entry.attempts)
      this.#takeOut(job)
    })
  }

  performNow(ids: readonly string[], retries: Retries): number {
    return this.#act(ids, retries, (job, entry) => {
      if (!this.free(job)) {
        job.nextPerformIn = this.now()
        return
      }
      const crashes = job.crashes + (job.claim ? 1 : 0)
      const attempts = job.claim ? noted(job, 'crash', null) : job.attempts
      this.#wait(job, { performIn: this.now(), crashes, attempts }, [...entry.set])
    })
  }

  #act(
    ids: readonly string[],
    { from = -1, to = Number.POSITIVE_INFINITY }: Retries,
    deed: (job: Job, entry: Waiting) => void,
  ): number {
    const entries = this.entries()
      .filter(({ id, state }) => ids.includes(id) && state === 'waiting')
      .filter(({ retryCount }) => retryCount >= from && retryCount <= to)
    for (const entry of entries) deed(this.jobs.get(entry.id)!, entry)
    return entries.length
  }

  #takeOut(job: Job): void {
    if (this.free(job)) this.jobs.delete(job.id)
    else Object.assign(job, { next: [], nextPerformIn: null })
  }

  /**
   * R5. Payloads of one requeue with equal scores may come in any order, so they get one `seq`. They merge as a push does,
   * after all that waits.
   */
  requeue(ids: readonly string[]): number {
    const risen = this.morgue.empty(ids)
    this.#seq += 1
    for (const id of [...new Set(risen.map((dead) => dead.id))].sort()) {
      const dead = risen.filter((one) => one.id === id)
      const last = dead.reduce((one, other) => (other.died > one.died ? other : one))
      this.#rise(
        id,
        dead.map((one) => ({ ...one, seq: this.#seq, expiry: 'never' })),
        last,
      )
    }
    return risen.length
  }

  /** A job that is made for it has the tenant of what died last; others keep theirs. */
  #rise(id: string, risen: readonly Entry[], { tenant, error, attempts }: Dead): void {
    const job = this.jobs.get(id)
    const place = { id, tenant, lane: this.tenants.home(tenant), performIn: this.now() }
    if (!job) this.jobs.set(id, { ...fresh(place, unite(...risen)), error, attempts })
    else if (this.free(job)) {
      const crashes = job.crashes + (job.claim ? 1 : 0)
      const own = job.claim ? noted(job, 'crash', null) : job.attempts
      // Those of the dead come with their error.
      const all = job.error === null && own.length === 0 ? attempts : own
      const numbers = { retryCount: -1, error: job.error ?? error, crashes, attempts: all }
      this.#wait(job, { performIn: this.now(), ...numbers }, unite(...job.set, ...job.next, ...risen))
    } else {
      job.next = unite(...job.next, ...risen)
      job.nextPerformIn = Math.min(job.nextPerformIn ?? Number.POSITIVE_INFINITY, this.now())
    }
  }

  /** R17: whose payloads can expire without doubt about what is left: of jobs that wait. */
  expiring(): string[] {
    const isClear = ({ set, claim }: Job) => claim === null && !set.some(({ isMixed }) => isMixed)
    return [...this.jobs.values()].filter(isClear).map(({ id }) => id)
  }

  /** R17: all that expires of a job has expired. */
  letExpire(id: string): void {
    const job = this.jobs.get(id)!
    job.set = job.set.map((one) => (one.expiry === 'later' ? { ...one, expiry: 'past' } : one))
  }

  /** R17: what has expired of jobs that wait is removed. */
  sweep(): void {
    for (const job of this.jobs.values()) {
      if (job.claim !== null || this.locked(job.id)) continue
      job.set = alive(job.set)
      if (job.set.length === 0) this.jobs.delete(job.id)
    }
  }

  /** What was delayed becomes due. For rules and rates, an hour has passed. */
  passTime(): void {
    this.tenants.passHour()
    const sooner = (time: number) => (time >= FUTURE ? time - FUTURE : time)
    for (const job of this.jobs.values()) {
      job.performIn = sooner(job.performIn)
      if (job.nextPerformIn !== null) job.nextPerformIn = sooner(job.nextPerformIn)
    }
  }
}
