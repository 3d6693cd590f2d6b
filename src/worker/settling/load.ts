/** What a call may carry, or what one item adds to it. */
export interface Load {
  readonly jobs: number
  /** Characters. */
  readonly size: number
}

/** The same, but for no more than so many jobs. */
export function limited({ jobs, size }: Load, most: number): Load {
  return { jobs: Math.min(jobs, most), size }
}

/** Takes items from the start of a list until they reach `most`; at least one, if there is any. */
export function takeLoad<T>(from: T[], most: Load, loadOf: (one: T) => Load): T[] {
  let [count, jobs, size] = [0, 0, 0]
  while (count < from.length && (count === 0 || (jobs < most.jobs && size < most.size))) {
    const load = loadOf(from[count]!)
    count += 1
    jobs += load.jobs
    size += load.size
  }
  return from.splice(0, count)
}
