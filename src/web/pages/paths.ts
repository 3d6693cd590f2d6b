import { segmentOf } from '../../serving/names.ts'

/** Addresses within the page, which start after its base. */
export function queuePath(queue: string): string {
  return `/queues/${segmentOf(queue)}`
}

export function jobPath(queue: string, id: string): string {
  return `${queuePath(queue)}/job/${segmentOf(id)}`
}

/** With the parameters that are given; those that are undefined or empty are left out. */
export function withQuery(path: string, parameters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parameters).filter((one): one is [string, string] => !!one[1])
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}
