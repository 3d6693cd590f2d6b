import type { TestQueue } from '../support/store-environment.ts'

/** Far enough in the future that nothing is due. */
export const FUTURE = Date.parse('2040-01-01T00:00:00Z')

/** Pushes payloads (by default one for the id with score 1) and kills them. */
export async function bury(
  testQueue: TestQueue,
  ...dead: { id: string; payload?: unknown; score?: number }[]
): Promise<void> {
  await testQueue.push(...dead.map((one) => ({ payload: one.id, score: 1, ...one, performIn: FUTURE })))
  const ids = [...new Set(dead.map(({ id }) => id))]
  await testQueue.env.lockstep.kill(testQueue.queue, { ids })
}
