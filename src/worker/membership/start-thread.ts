import { Worker as Thread, type Transferable } from 'node:worker_threads'
import { EXTENSION, SOURCE } from '../../location.ts'

/** Before Node 21, `pg` looks for `Response` where there is no navigator, and Node takes 20 ms and 3 MB to load it. */
const NAVIGATOR = "globalThis.navigator ??= { userAgent: 'Node.js' }"

/**
 * Starts a file of this folder as a thread. The thread runs a line of code that imports the file, instead of the file
 * itself: a thread inherits the flags of its process, and --input-type, which goes with `node -e`, forbids files. From
 * source, it needs a loader too.
 */
export function startThread(
  name: 'lease-thread' | 'release-thread',
  workerData: unknown,
  transferList: Transferable[] = [],
): Thread {
  return new Thread(`${NAVIGATOR}; ${bootstrap(name)}`, { eval: true, workerData, transferList, name })
}

function bootstrap(name: string): string {
  const file = new URL(`worker/membership/${name}.${EXTENSION}`, SOURCE)
  const load = `import(${JSON.stringify(file.href)})`
  if (EXTENSION === 'js') return load
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'))
  return `import(${tsx}).then(({ register }) => { register(); return ${load} })`
}
