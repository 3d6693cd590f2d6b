import type { Limit, Limits, Placed, Pushed, Rule } from './words.ts'

interface OfTenant {
  readonly tenant: string | null
}

/** A push or a start, so many hours ago. */
interface Past extends OfTenant {
  hours: number
}

/** Which jobs a claim takes, and which limits kept others waiting: of a tenant, null for the queue's own. */
export interface Choice<Job> {
  readonly chosen: readonly Job[]
  readonly over: readonly (string | null)[]
}

/** A limit that is reached. */
export interface Reached extends OfTenant {
  readonly what: 'concurrency' | 'rate'
  readonly most: number
  readonly used: number
}

const NONE = Number.POSITIVE_INFINITY

/** What a queue knows of its tenants, and what its rules and limits make of that. */
export class Tenants {
  readonly rules: readonly Rule[]
  limits: Limits
  /** Those of tenants in a queue without rules. */
  readonly #lanes: ReadonlyMap<string, number>
  #pushes: Past[] = []
  #starts: Past[] = []

  constructor(rules: readonly Rule[], limits: Limits, lanes: ReadonlyMap<string, number>) {
    this.rules = rules
    this.limits = limits
    this.#lanes = lanes
  }

  /** Decides on lanes, lower ids first. What is committed counts, and what comes before in the call itself. */
  place(pushes: readonly Pushed[]): Placed[] {
    const own: Past[] = []
    return pushes
      .toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))
      .map((push) => {
        const { tenant, lane } = push
        if (lane !== undefined || tenant === null) return { ...push, lane: lane ?? 0, counts: false }
        if (this.rules.length === 0) return { ...push, lane: this.home(tenant), counts: false }
        own.push({ tenant, hours: 0 })
        const pushed = [...this.#pushes, ...own].filter((past) => past.tenant === tenant)
        const rule = this.rules.findLast(
          ({ over, within }) => pushed.filter(({ hours }) => hours < within).length > over,
        )
        return { ...push, lane: rule?.lane ?? 0, counts: true }
      })
  }

  /** The lane of a job that no push has placed. */
  home(tenant: string | null): number {
    return tenant !== null && this.rules.length === 0 ? this.#lanes.get(tenant)! : 0
  }

  pushed({ tenant }: OfTenant): void {
    this.#pushes.push({ tenant, hours: 0 })
  }

  started({ tenant }: OfTenant): void {
    this.#starts.push({ tenant, hours: 0 })
  }

  /**
   * Goes through what is due, up to `most` jobs. One whose tenant has no room is passed over, and so is one that is `locked`.
   * If the queue has no room, nothing more can go.
   */
  choose<Job extends OfTenant>(
    due: readonly Job[],
    inWork: readonly OfTenant[],
    most: number,
    locked: (job: Job) => boolean,
  ): Choice<Job> {
    const chosen: Job[] = []
    const over = new Set<string | null>()
    for (const job of due) {
      if (chosen.length === most) break
      const full = [null, job.tenant].find((of) => this.#room(of, inWork, chosen) <= 0)
      if (full !== undefined) over.add(full)
      if (full === null) break
      if (full === undefined && !locked(job)) chosen.push(job)
    }
    return { chosen, over: [...over] }
  }

  /** How many more jobs of a tenant may begin, of all if that is null. */
  #room(of: string | null, inWork: readonly OfTenant[], chosen: readonly OfTenant[]): number {
    const { concurrency = NONE, rate } = this.#limitOf(of)
    const room = Math.min(
      concurrency - ofTenant(of, inWork).length,
      (rate?.jobs ?? NONE) - this.#startedOf(of, rate),
    )
    return room - ofTenant(of, chosen).length
  }

  #limitOf(of: string | null): Limit {
    return (of === null ? this.limits : this.limits.tenant) ?? {}
  }

  #startedOf(of: string | null, rate: Limit['rate']): number {
    return ofTenant(of, this.#starts).filter(({ hours }) => hours < (rate?.within ?? NONE)).length
  }

  /** As people see it. */
  reached(inWork: readonly OfTenant[]): Reached[] {
    return [null, ...this.#lanes.keys()].flatMap((of) => {
      const { concurrency = NONE, rate } = this.#limitOf(of)
      const all: Reached[] = [
        { tenant: of, what: 'concurrency', most: concurrency, used: ofTenant(of, inWork).length },
        { tenant: of, what: 'rate', most: rate?.jobs ?? NONE, used: this.#startedOf(of, rate) },
      ]
      return all.filter(({ most, used }) => used >= most)
    })
  }

  passHour(): void {
    for (const past of [...this.#pushes, ...this.#starts]) past.hours += 1
  }
}

/** Nobody in particular has no limit of its own. */
function ofTenant<Some extends OfTenant>(of: string | null, some: readonly Some[]): Some[] {
  return some.filter(({ tenant }) => of === null || tenant === of)
}
