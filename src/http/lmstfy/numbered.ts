import type { Answer, Call, Reply } from '../call.ts'
import { newUlid } from '../ulid.ts'

/** Answers a request that the log can name. */
export type NumberedAnswer = (call: Call, requestId: string) => Promise<Reply>

/** Gives each request an id, and its answer, too. */
export function numbered(answer: NumberedAnswer): Answer {
  return async (call) => {
    const id = newUlid(Date.now())
    const reply = await answer(call, id)
    return { ...reply, headers: { ...reply.headers, 'X-Request-ID': id } }
  }
}
