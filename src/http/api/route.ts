import type { z } from 'zod'
import type { Insight } from '../../admin/insight.ts'
import type { Results } from '../../enqueue/results.ts'
import type { Consumer, Lockstep, Queue, Stats, TokenScope } from '../../index.ts'
import type { servedBy } from '../../lockstep.ts'
import type { Logger } from '../../logger.ts'
import type { Asked } from '../../serving/asked.ts'
import { readyResponse } from '../../serving/ready.ts'
import type { Shared } from '../../serving/shared.ts'
import type { Grant } from './access/access.ts'
import type { Body } from './body.ts'

/** What answers are made with. */
export interface Tools
  extends Pick<ReturnType<typeof servedBy>, 'enqueueInTime' | 'enqueueOnce' | 'enqueueForResultInTime'> {
  readonly lockstep: Lockstep
  readonly consumer: Consumer
  readonly insight: Insight
  readonly logger: Logger
  /** All queues are counted at most once a second. */
  readonly stats: Shared<Stats>
  readonly results: Results
  readonly maxJobs: number
  /** The definition of a queue. */
  queue(name: string): Queue
}

/** A request that may do what it wants. */
export interface Call<Query = unknown> {
  readonly request: Asked
  readonly grant: Grant
  /** Of the path; empty if that has none. */
  readonly queue: string
  /** Other parts of the path. */
  readonly id: string
  readonly query: Query
  readonly body: Body
  /** @throws Problem for a queue that it may not use */
  requireQueues(queues: readonly string[]): Promise<void>
}

/** A route of the API, and its description. */
export interface Route {
  readonly method: 'get' | 'post'
  /** As OpenAPI has it: `/queues/{queue}/jobs`. */
  readonly path: string
  readonly scope: TokenScope
  readonly name: string
  readonly summary: string
  readonly description?: string
  readonly query?: z.ZodType
  /** Any of these. */
  readonly body?: readonly z.ZodType[]
  /** The body may be left out. */
  readonly mayBeEmpty?: boolean
  /** Of the request, with their descriptions. */
  readonly headers?: Readonly<Record<string, string>>
  /** Of the answer. */
  readonly answerHeaders?: Readonly<Record<string, string>>
  /** Any of these. */
  readonly answers: readonly z.ZodType[]
  /** An answer with status 202. */
  readonly unfinished?: z.ZodType
  /** The answer is a line of JSON for each step. */
  readonly isStream?: boolean
  answer(call: Call<never>, tools: Tools): Response | Promise<Response>
}

/** With the type of its query. */
export function route<Query = unknown>(
  given: Omit<Route, 'answer' | 'query'> & {
    readonly query?: z.ZodType<Query>
    answer(call: Call<Query>, tools: Tools): Response | Promise<Response>
  },
): Route {
  return given as unknown as Route
}

export function json(text: string, headers: Readonly<Record<string, string>> = {}, status = 200): Response {
  return readyResponse(text, status, { 'content-type': 'application/json', ...headers })
}
