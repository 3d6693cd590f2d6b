import type { z } from 'zod'
import type { ClaimReference, Consumer } from '../../../index.ts'
import { elementsOf, hasNumbersToKeep, memberIn } from '../../../json-text.ts'
import { detailsOf } from '../../../serving/problem.ts'
import { objectOf, written } from '../body.ts'
import { apiProblemOf } from '../problems.ts'
import { json, type Route, route, type Tools } from '../route.ts'
import { allSettled, completed, extended, failed, listOf, plain, settled } from '../schemas/settle.ts'
import { parsed } from '../schemas/strict.ts'
import { toMs } from '../schemas/values.ts'

/** `text`: the JSON of the claim. */
type Settle<Claim> = (consumer: Consumer, claim: Claim, text: string) => Promise<boolean>

/** One claim, told by its members, or a list of them. */
function settling<Claim extends ClaimReference>(
  name: string,
  summary: string,
  claim: z.ZodType<Claim>,
  settle: Settle<Claim>,
): Route {
  const list = listOf(claim, `${name[0]!.toUpperCase()}${name.slice(1)}Claims`)
  return route({
    method: 'post',
    path: `/${name}`,
    scope: 'consume',
    name,
    summary,
    description:
      'A claim that is no longer held is no error: it may have been settled by a request whose answer was lost.',
    body: [claim, list],
    answers: [settled, allSettled],
    async answer({ body, requireQueues }, tools) {
      const value = objectOf(body.value)
      if (!Object.hasOwn(value, 'claims')) {
        const one = parsed(claim, value)
        await requireQueues([one.queue])
        return json(JSON.stringify({ held: await settle(tools.consumer, one, body.text) }))
      }
      const { claims } = parsed(list, value) as { readonly claims: readonly Claim[] }
      await requireQueues(claims.map(({ queue }) => queue))
      const texts = hasNumbersToKeep(body.text) ? elementsOf(memberIn(body.text, 'claims')) : []
      const results = await settleAll(tools, claims, (consumer, claim, index) =>
        settle(consumer, claim, texts[index] ?? ''),
      )
      return json(JSON.stringify({ results }))
    },
  })
}

/** They go to the database together. If none could be settled, neither could the request. */
async function settleAll<Claim>(
  { consumer, logger }: Tools,
  claims: readonly Claim[],
  settle: (consumer: Consumer, claim: Claim, index: number) => Promise<boolean>,
): Promise<object[]> {
  const ended = await Promise.allSettled(claims.map((claim, index) => settle(consumer, claim, index)))
  if (ended.every(({ status }) => status === 'rejected')) throw (ended[0] as PromiseRejectedResult).reason
  return ended.map((one) =>
    one.status === 'fulfilled'
      ? { held: one.value }
      : { held: null, problem: detailsOf(apiProblemOf(one.reason, logger)) },
  )
}

export const SETTLE: readonly Route[] = [
  settling(
    'complete',
    'Ends claims with success',
    completed,
    (consumer, { result, keep_result, ...claim }, text) =>
      consumer.complete(claim, {
        result: written(text, 'result', result),
        ...(keep_result && { keepResult: keep_result }),
      }),
  ),
  settling('fail', 'Ends claims with a failure', failed, (consumer, { error, retry_in, ...claim }) =>
    consumer.fail(claim, error, retry_in === undefined || retry_in === null ? {} : { retryIn: retry_in }),
  ),
  settling('release', 'Gives jobs back as they were', plain, (consumer, claim) => consumer.release(claim)),
  settling('extend', 'Lets leases end later', extended, (consumer, { lease, ...claim }) =>
    consumer.extend(claim, toMs(lease)),
  ),
]
