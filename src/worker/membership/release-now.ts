import type { ConnectionConfig } from '../../postgres/connection.ts'
import type { Round } from '../../store/claim.ts'
import { startThread } from './start-thread.ts'

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
  /** Set and notified at the end: 1 when all is released, else 2. */
  readonly done: Int32Array<SharedArrayBuffer>
}

/**
 * Gives rounds back whose handlers won't end, and returns whether that was done within `timeout` ms.
 *
 * This thread stands still meanwhile: from the moment another process may claim an id, its handler here must not
 * take a step (P1). So the process has to end before anything else is awaited.
 */
export function releaseRoundsNow(data: Omit<GiveBackData, 'done'>, timeout: number): boolean {
  const done = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const thread = startThread('release-thread', { ...data, done } satisfies GiveBackData)
  thread.on('error', () => {})
  thread.unref()
  Atomics.wait(done, 0, 0, timeout)
  return Atomics.load(done, 0) === 1
}
