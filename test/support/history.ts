import fc from 'fast-check'
import type { Run } from './handler-log.ts'

/** The fates of rounds. In the fourth and fifth, the process was killed after its handler had returned. */
const FATES = ['completed', 'failed', 'killed', 'unstored', 'untold', 'stopped', 'buried'] as const
type Fate = (typeof FATES)[number]

interface Step {
  readonly queue: string
  readonly id: string
  readonly pushed: number
  /** The most payloads that the round takes. */
  readonly most: number
  readonly fate: Fate
  readonly duration: number
}

/** Runs of queues `q` and `r`, which have the same ids, with everything that is true about them. */
export interface History {
  readonly runs: readonly Run[]
  readonly deaths: ReadonlyMap<string, bigint>
  readonly freezes: ReadonlyMap<string, readonly (readonly [bigint, bigint])[]>
  readonly lease: bigint
  /** By queue, then id. */
  readonly pushed: ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>
  readonly dead: ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>
  readonly repeats: number
  readonly outlived: bigint
}

const LEASE = 50

/** What an executor does that keeps its promises, although processes are killed and stopped. */
export const correctHistory = fc
  .array(
    fc.record<Step>({
      queue: fc.constantFrom('q', 'r'),
      id: fc.constantFrom('a', 'b'),
      pushed: fc.integer({ min: 0, max: 3 }),
      most: fc.integer({ min: 1, max: 3 }),
      fate: fc.constantFrom(...FATES),
      duration: fc.integer({ min: 1, max: 25 }),
    }),
    { minLength: 1, maxLength: 25 },
  )
  .map((steps) => {
    const executor = new Executor()
    for (const step of steps) executor.take(step)
    return executor.end()
  })

class Executor {
  readonly #runs: Run[] = []
  readonly #deaths = new Map<string, bigint>()
  readonly #freezes = new Map<string, [bigint, bigint][]>()
  readonly #pushed = new Map([...'qr'].map((queue) => [queue, new Map<string, number[]>()]))
  readonly #dead = new Map([...'qr'].map((queue) => [queue, new Map<string, number[]>()]))
  readonly #waiting = new Map<string, number[]>()
  readonly #freeAt = new Map<string, number>()
  readonly #times = new Map<string, number>()
  #outlived = 0
  #now = 0

  /** Rounds of several ids run side by side; those of one id never do. */
  take(step: Step): void {
    const { queue, id, fate, duration } = step
    const key = `${queue} ${id}`
    this.#now += 10
    const waiting = this.#push(step)
    const payloads = waiting.slice(0, step.most)
    if (payloads.length === 0) return
    const begin = Math.max(this.#now, this.#freeAt.get(key) ?? 0)
    const end = begin + duration
    this.#freeAt.set(key, fate === 'stopped' ? begin + LEASE : end)
    const returned = !['failed', 'killed', 'buried'].includes(fate)
    const ended =
      fate === 'killed' ? undefined : BigInt(fate === 'stopped' ? this.#stop(begin, duration) : end)
    if (['killed', 'unstored', 'untold'].includes(fate)) this.#deaths.set(this.#process, BigInt(end))
    this.#runs.push({
      ...{ process: this.#process, queue, id, fence: this.#runs.length + 1, payloads },
      ...{ begin: BigInt(begin), end: ended, returned },
      ...{ accepted: fate === 'completed', refused: fate === 'stopped' },
    })
    if (returned) for (const payload of payloads) this.#count(`${key} ${payload}`)
    if (['completed', 'untold'].includes(fate)) waiting.splice(0, payloads.length)
    if (fate === 'buried') this.#bury(queue, id, waiting.shift()!)
  }

  /** Adds two more completed rounds of each id. The first takes everything that is left. */
  end(): History {
    for (const queue of 'qr') {
      for (const id of 'ab') {
        const last: Step = { queue, id, pushed: 1, most: 1_000, fate: 'completed', duration: 8 }
        this.take(last)
        this.take(last)
      }
    }
    return {
      ...{ runs: this.#runs, deaths: this.#deaths, freezes: this.#freezes, lease: BigInt(LEASE - 10) },
      ...{ pushed: this.#pushed, dead: this.#dead, outlived: BigInt(this.#outlived) },
      repeats: [...this.#times.values()].filter((times) => times > 1).length,
    }
  }

  /** Each round has its own process. */
  get #process(): string {
    return `p${this.#runs.length}`
  }

  #push({ queue, id, pushed }: Step): number[] {
    const all = this.#pushed.get(queue)!.get(id) ?? []
    const more = Array.from({ length: pushed }, (_, index) => all.length + index + 1)
    const waiting = this.#waiting.get(`${queue} ${id}`) ?? []
    waiting.push(...more)
    this.#waiting.set(`${queue} ${id}`, waiting)
    this.#pushed.get(queue)!.set(id, [...all, ...more])
    return waiting
  }

  /** Stops the process for longer than the lease. After that, the run goes on for a while. Returns when it ends. */
  #stop(begin: number, after: number): number {
    const continuedAt = begin + LEASE + 20
    this.#freezes.set(this.#process, [[BigInt(begin + 1), BigInt(continuedAt)]])
    this.#outlived = Math.max(this.#outlived, after)
    return continuedAt + after
  }

  #count(payload: string): void {
    this.#times.set(payload, (this.#times.get(payload) ?? 0) + 1)
  }

  #bury(queue: string, id: string, payload: number): void {
    const dead = this.#dead.get(queue)!
    dead.set(id, [...(dead.get(id) ?? []), payload])
  }
}
