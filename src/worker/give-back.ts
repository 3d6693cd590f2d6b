import { Worker as Thread } from 'node:worker_threads'
import type { ConnectionConfig } from '../postgres/connection.ts'
import type { Round } from '../store/claim.ts'

/** Rounds of one batch that still runs. */
export interface HeldRounds {
  readonly processId: number
  readonly queueId: number
  readonly rounds: readonly Round[]
}

/** What the thread is started with. */
export interface GiveBackData {
  readonly config: ConnectionConfig
  readonly schema: string
  readonly held: readonly HeldRounds[]
  /** Set and notified when it is done. */
  readonly done: Int32Array<SharedArrayBuffer>
}

/**
 * Gives rounds back whose handlers won't end, and returns whether that was done within `timeout` ms.
 *
 * This thread stands still meanwhile: from the moment another process may claim an id, its handler here must not
 * take a step (P1). So the process has to end before anything else is awaited.
 */
export function giveBackRounds(data: Omit<GiveBackData, 'done'>, timeout: number): boolean {
  const done = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const thread = startThread({ ...data, done })
  thread.on('error', () => {})
  thread.unref()
  return Atomics.wait(done, 0, 0, timeout) !== 'timed-out'
}

/** Built, the thread's file is plain JavaScript; from source it needs a loader, and a worker thread starts without. */
function startThread(workerData: GiveBackData): Thread {
  if (import.meta.url.endsWith('.js')) {
    return new Thread(new URL('./give-back-thread.js', import.meta.url), { workerData, name: 'give-back' })
  }
  const file = new URL('./give-back-thread.ts', import.meta.url).href
  const tsx = import.meta.resolve('tsx/esm/api')
  const bootstrap = `import('${tsx}').then(({ register }) => { register(); return import('${file}') })`
  return new Thread(bootstrap, { eval: true, workerData, name: 'give-back' })
}
