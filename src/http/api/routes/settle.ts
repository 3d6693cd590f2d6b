import type { z } from 'zod'
import type { ClaimReference, Consumer } from '../../../index.ts'
import { detailsOf } from '../../../serving/problem.ts'
import { objectOf } from '../body.ts'
import { apiProblemOf } from '../problems.ts'
import { json, type Route, route, type Tools } from '../route.ts'
import { allSettled, extended, failed, listOf, plain, settled } from '../schemas/settle.ts'
import { parsed } from '../schemas/strict.ts'
import { toMs } from '../schemas/values.ts'

/** One claim, told by its members, or a list of them. */
function settling<Claim extends ClaimReference>(
  name: string,
  summary: string,
  claim: z.ZodType<Claim>,
  settle: (consumer: Consumer, claim: Claim) => Promise<boolean>,
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
        return json(JSON.stringify({ held: await settle(tools.consumer, one) }))
      }
      const { claims } = parsed(list, value) as { readonly claims: readonly Claim[] }
      await requireQueues(claims.map(({ queue }) => queue))
      const results = await settleAll(tools, claims, settle)
      return json(JSON.stringify({ results }))
    },
  })
}

/** They go to the database together. If none could be settled, neither could the request. */
async function settleAll<Claim>(
  { consumer, logger }: Tools,
  claims: readonly Claim[],
  settle: (consumer: Consumer, claim: Claim) => Promise<boolean>,
): Promise<object[]> {
  const ended = await Promise.allSettled(claims.map((claim) => settle(consumer, claim)))
  if (ended.every(({ status }) => status === 'rejected')) throw (ended[0] as PromiseRejectedResult).reason
  return ended.map((one) =>
    one.status === 'fulfilled'
      ? { held: one.value }
      : { held: null, problem: detailsOf(apiProblemOf(one.reason, logger)) },
  )
}

export const SETTLE: readonly Route[] = [
  settling('complete', 'Ends claims with success', plain, (consumer, claim) => consumer.complete(claim)),
  settling('fail', 'Ends claims with a failure', failed, (consumer, { error, retry_in, ...claim }) =>
    consumer.fail(claim, error, retry_in === undefined || retry_in === null ? {} : { retryIn: retry_in }),
  ),
  settling('release', 'Gives jobs back as they were', plain, (consumer, claim) => consumer.release(claim)),
  settling('extend', 'Lets leases end later', extended, (consumer, { lease, ...claim }) =>
    consumer.extend(claim, toMs(lease)),
  ),
]
