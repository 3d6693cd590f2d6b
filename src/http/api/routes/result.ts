import { isOver } from '../../../enqueue/results.ts'
import type { ResultRow } from '../../../store/results.ts'
import { type Call, json, route, type Tools } from '../route.ts'
import { result, resultQuery } from '../schemas/result.ts'
import { toMs } from '../schemas/values.ts'

export const RESULT = route({
  method: 'get',
  path: '/queues/{queue}/results/{id}',
  scope: 'produce',
  name: 'getResult',
  summary: 'What has become of a push, or waits for it',
  description: 'With status 202 while it is not over.',
  query: resultQuery,
  answers: [result],
  unfinished: result,
  async answer(call, tools) {
    const { queue, id, query } = call
    return resultJson(await awaited(call, tools, { queue, id, round: query.round }, toMs(query.wait)))
  },
})

/** @throws Problem for a token that was deleted meanwhile */
export async function awaited(
  { request, grant }: Call,
  { results }: Tools,
  { queue, id, round }: { readonly queue: string; readonly id: string; readonly round: string },
  wait: number,
): Promise<ResultRow> {
  const row = await results.find(queue, id, round, { wait, signal: request.signal })
  if (wait > 0) await grant.requireStill()
  return row
}

/** The result goes out as it is stored, so that its numbers have all digits. `about` comes before it. */
export function resultJson(row: ResultRow, about: object = {}): Response {
  const { state, error, retry_count, ended_at } = row
  const head = JSON.stringify({ ...about, state, error, retry_count, ended_at })
  return json(`${head.slice(0, -1)},"result":${row.result ?? 'null'}}`, {}, isOver(row) ? 200 : 202)
}
