const MOST_BYTES = 255
const NAME = /^[-_A-Za-z0-9]+$/
const NAMES = /^[-_,A-Za-z0-9]+$/
const SEPARATOR = '/'

/** What is wrong with a namespace and a queue; undefined if nothing is. */
export function problemOfNames(namespace: string, queue: string): string | undefined {
  if (Buffer.byteLength(namespace) > MOST_BYTES || Buffer.byteLength(queue) > MOST_BYTES)
    return 'namespace or queue name too long'
  if (!NAME.test(namespace)) return 'namespace name contains forbidden characters'
  if (queue.startsWith('_') || !NAME.test(queue)) return 'queue name contains forbidden characters'
  return undefined
}

/** The same for a namespace and a list of queues. As in lmstfy, it asks less of them; names too long for anyone have no jobs. */
export function problemOfLists(namespace: string, queues: string): string | undefined {
  if (!NAME.test(namespace)) return 'namespace name contains forbidden characters'
  if (!NAMES.test(queues)) return 'queue name contains forbidden characters'
  return undefined
}

export function problemOfNamespace(namespace: string): string | undefined {
  if (Buffer.byteLength(namespace) > MOST_BYTES) return 'the namespace name was too long'
  return NAME.test(namespace) ? undefined : 'namespace name contains forbidden characters'
}

/** Whether a queue of this name can have jobs. */
export function isPossible(namespace: string, queue: string): boolean {
  return problemOfNames(namespace, queue) === undefined
}

/** The name of a queue, with its namespace, as it stands in `lockstep.queues`. */
export function fullNameOf(namespace: string, queue: string): string {
  return `${namespace}${SEPARATOR}${queue}`
}

/** Undefined for a queue that isn't lmstfy's. */
export function partsOf(name: string): { readonly namespace: string; readonly queue: string } | undefined {
  const [namespace, queue, ...more] = name.split(SEPARATOR)
  if (!namespace || !queue || more.length > 0) return undefined
  return problemOfNames(namespace, queue) ? undefined : { namespace, queue }
}
