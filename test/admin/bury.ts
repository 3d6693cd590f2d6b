import type { Board } from '../support/rounds.ts'

/** Far enough away for nothing to be due. */
export const FUTURE = Date.parse('2040-01-01T00:00:00Z')

/** Pushes payloads, by default the id with score 1, and kills them. */
export async function bury(
  board: Board,
  ...dead: { id: string; payload?: unknown; score?: number }[]
): Promise<void> {
  await board.push(...dead.map((one) => ({ payload: one.id, score: 1, ...one, performIn: FUTURE })))
  const ids = [...new Set(dead.map(({ id }) => id))]
  await board.stage.lockstep.kill(board.queue, { ids })
}
