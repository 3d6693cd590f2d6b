import type { ConnectionConfig } from '../../postgres/client.ts'
import { forThreadAlone } from '../../postgres/thread-config.ts'
import type { Round } from '../../store/claim.ts'
import { startThread } from './start-thread.ts'

/** The rounds of a batch that still runs. */
export interface HeldRounds {
  readonly processId: number
  readonly queueId: number
  readonly rounds: readonly Round[]
}

/** The data that the thread is started with. */
export interface ReleaseData {
  readonly config: ConnectionConfig
  readonly schema: string
  readonly held: readonly HeldRounds[]
  /** Set and notified at the end: 1 if all is released, else 2. */
  readonly done: Int32Array<SharedArrayBuffer>
}

/**
 * Releases rounds whose handlers won't end. Returns whether that was done within `timeout` ms; true if there are none.
 *
 * This thread is blocked meanwhile: from the moment another process may claim an id, its handler here must not take a step
 * (P1). So the process must end before anything else is awaited.
 */
export function releaseRoundsNow(data: Omit<ReleaseData, 'done'>, timeout: number): boolean {
  if (data.held.length === 0) return true
  const config = forThreadAlone(data.config)
  if (!config) return false
  const done = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const thread = startThread('release-thread', {
    ...data,
    config,
    done,
  } satisfies ReleaseData)
  thread.on('error', () => {})
  thread.unref()
  Atomics.wait(done, 0, 0, timeout)
  return Atomics.load(done, 0) === 1
}
