import { Worker as Thread } from 'node:worker_threads'

/**
 * Starts a file of this folder as a thread. Built, it is plain JavaScript; from source it needs a loader, and a
 * worker thread starts without one.
 */
export function startThread(name: 'lease-thread' | 'give-back-thread', workerData: unknown): Thread {
  if (import.meta.url.endsWith('.js')) {
    return new Thread(new URL(`./${name}.js`, import.meta.url), { workerData, name })
  }
  const file = new URL(`./${name}.ts`, import.meta.url).href
  const tsx = import.meta.resolve('tsx/esm/api')
  const bootstrap = `import('${tsx}').then(({ register }) => { register(); return import('${file}') })`
  return new Thread(bootstrap, { eval: true, workerData, name })
}
