import { describeError } from '../../errors.ts'
import type { Death } from '../../handler.ts'
import type { Logger } from '../../logger.ts'
import type { Queue } from '../../queue.ts'
import type { Round } from '../../store/claim.ts'
import type { FailedRound } from './outcome.ts'

/** The payloads that went to the morgue when a round ended. */
export function deathsOf(round: Round, end: FailedRound['end'], error: unknown): Death[] {
  const deathOf = (_: unknown, at: number): Death => ({
    id: round.id,
    payload: round.payloads[at],
    score: round.scores[at],
    headers: (round.headers?.[at] ?? null) as Death['headers'],
    error,
  })
  if (end === 'discard') return round.scores.map(deathOf)
  return end === 'die' ? [deathOf(undefined, 0)] : []
}

/** Calls the queue's `onDeath` for each, one after the other. Never rejects. */
export async function tellDeaths(queue: Queue, deaths: readonly Death[], logger: Logger): Promise<void> {
  for (const death of deaths) {
    try {
      await queue.onDeath!(death)
    } catch (error) {
      const fields = { queue: queue.name, id: death.id, error: describeError(error) }
      logger.error(fields, '`onDeath` failed: the payload is in the morgue all the same')
    }
  }
}
