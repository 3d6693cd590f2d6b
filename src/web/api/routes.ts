import type { Lockstep } from '../../index.ts'
import type { Logger } from '../../logger.ts'
import { wholeNumber } from '../../options.ts'
import { nameIn } from '../../serving/names.ts'
import type { WebAction } from '../access/users.ts'
import type { View, WebContext } from '../view.ts'

/** What answers are made with. */
export interface Tools {
  readonly lockstep: Lockstep
  readonly logger: Logger
  readonly view: View
}

/** A route of the API. */
export interface Route {
  readonly method: 'get' | 'post'
  /** Below /api/v1, as OpenAPI has it: `/queues/{queue}`. */
  readonly path: string
  readonly needs: WebAction
  answer(context: WebContext, tools: Tools): Response | Promise<Response>
}

/** Of the path, which has one where this is called. */
export function queueIn(context: WebContext): string {
  return nameIn(context.req.param('queue')!)
}

/** @throws OptionError */
export function processIn(context: WebContext): number {
  const text = context.req.param('process')!
  return wholeNumber(/^\d+$/.test(text) ? Number(text) : text, 1, 2 ** 31 - 1, 'process')
}
