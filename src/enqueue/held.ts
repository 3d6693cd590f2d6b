import { DatabaseError, LockstepError } from '../errors.ts'
import { PATIENCE, rowOf, type Waiting } from '../store/insistence.ts'

/** How a push waits for a transaction that has pushed one of its ids. `until`: five seconds from now unless it began earlier. */
export function waitingFor(
  queue: string,
  jobs: readonly { readonly id?: unknown }[],
  until = performance.now() + PATIENCE,
): Waiting {
  const row = jobs.length === 1 ? rowOf(queue, String(jobs[0]!.id)) : undefined
  return { row, until, refusal }
}

function refusal(cause: unknown): Error {
  // It has a meaning of its own, such as a key in use.
  if (cause instanceof LockstepError && !(cause instanceof DatabaseError)) return cause
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    'a transaction that has pushed the id is still open: end it, or push again later',
    { cause },
  )
}
