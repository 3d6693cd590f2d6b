import { charactersOf, type PushedJob } from '../store/push.ts'

const MAX_JOBS = 1_000
const MAX_CHARACTERS = 4_000_000

/** Jobs in the order in which their rows are locked: by id, bytewise; jobs of the same id stay in order. */
export function inLockOrder(jobs: readonly PushedJob[]): PushedJob[] {
  return jobs.toSorted((a, b) => compareBytewise(a.id, b.id))
}

/** Parts small enough for one statement each. */
export function* inChunks(jobs: readonly PushedJob[]): Iterable<PushedJob[]> {
  let chunk: PushedJob[] = []
  let characters = 0
  for (const job of jobs) {
    const more = charactersOf(job)
    if (chunk.length === MAX_JOBS || (chunk.length > 0 && characters + more > MAX_CHARACTERS)) {
      yield chunk
      chunk = []
      characters = 0
    }
    chunk.push(job)
    characters += more
  }
  if (chunk.length > 0) yield chunk
}

const SURROGATE = /[\ud800-\udfff]/

/** Matches Postgres' "C" collation. JavaScript's own order differs only beyond the basic plane. */
function compareBytewise(a: string, b: string): number {
  if (a === b) return 0
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : 1
}
