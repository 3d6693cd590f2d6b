import type { Found } from '../index.ts'

/**
 * The first jobs that will be handed over, up to a count: some that have expired may lie before these until maintenance removes them,
 * every ten seconds. `page`: the jobs in their order, from a place on.
 */
export async function firstLiving<Job>(
  count: number,
  page: (after: string | undefined) => Promise<Found<Job>>,
  hasExpired: (job: Job) => boolean,
): Promise<Job[]> {
  const living: Job[] = []
  let after: string | undefined
  do {
    const { items, next } = await page(after)
    living.push(...items.filter((job) => !hasExpired(job)))
    after = next
  } while (living.length < count && after !== undefined)
  return living.slice(0, count)
}
