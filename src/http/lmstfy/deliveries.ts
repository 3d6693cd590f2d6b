import type { Call } from '../call.ts'

const MOST = 100_000

/** A claim that was handed to a client. */
export interface Delivery {
  readonly fence: number
  readonly connection: number | undefined
  readonly address: string | undefined
}

/**
 * Which claims were handed to whom, of the last 100,000 jobs: a client acknowledges a job by its id alone. So that a late one
 * doesn't end another's claim, its acknowledgement counts for the claim that it was handed: the last one on its connection, or
 * else the last one at its address. That is a guess: a client may have several connections, and share its address. And other
 * gateways hand out claims, too.
 */
export class Deliveries {
  readonly #byJob = new Map<string, Delivery[]>()

  add(queue: string, id: string, fence: number, { connection, address }: Call): void {
    const key = keyOf(queue, id)
    const deliveries = this.#byJob.get(key) ?? []
    this.#byJob.delete(key)
    this.#byJob.set(key, [...deliveries, { fence, connection, address }])
    if (this.#byJob.size > MOST) this.#byJob.delete(this.#byJob.keys().next().value!)
  }

  /** The claim that a client means; undefined if none is known that was handed to it. */
  of(queue: string, id: string, { connection, address }: Call): Delivery | undefined {
    const deliveries = this.#byJob.get(keyOf(queue, id)) ?? []
    const onConnection = deliveries.findLast(
      (one) => connection !== undefined && one.connection === connection,
    )
    return onConnection ?? deliveries.findLast((one) => address !== undefined && one.address === address)
  }

  /** Whether this claim was handed to anybody here. */
  has(queue: string, id: string, fence: number): boolean {
    return this.#byJob.get(keyOf(queue, id))?.some((one) => one.fence === fence) ?? false
  }

  forget(queue: string, id: string): void {
    this.#byJob.delete(keyOf(queue, id))
  }
}

function keyOf(queue: string, id: string): string {
  return `${queue}/${id}`
}
