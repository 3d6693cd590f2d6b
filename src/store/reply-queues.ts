import type { Database } from '../postgres/database.ts'

/** Most queues that a call deletes: who pushes into one of these waits meanwhile. */
export const MOST_REPLY_QUEUES = 500

/** Deletes a bounded part of the queues that synchronous tasks of lmstfy's API have left behind, and returns how many. */
export async function trimReplyQueues(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_reply_queues: number }>('trim_reply_queues', [MOST_REPLY_QUEUES])
  return row!.trim_reply_queues
}
