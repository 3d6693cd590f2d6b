import type { Progress, Progression } from '../index.ts'
import type { Logger } from '../logger.ts'
import { settlesWithin } from '../promises.ts'
import { detailsOf, problemOf } from './problem.ts'

/** What is logged of an action. */
export interface Deed {
  readonly event: string
  readonly action: string
  readonly queue: string
  readonly actor: string | undefined
  readonly [detail: string]: unknown
}

export interface Streaming {
  readonly deed: Deed
  /** For the log: `the web page`. */
  readonly from: string
  readonly logger: Logger
  begin(signal: AbortSignal): Progression
  ended?(): void
}

/** ms in which a refusal still gets a status of its own. Some actions first watch processes that seem dead, up to 30 s. */
const PATIENCE = 1_000

/**
 * Answers with a line of JSON for each step, `{ done, total }`, and a last one with the `result` or the `error`. If the
 * client goes away, the action stops after the chunk under way, and what is done stays done. `ended` is called before it ends.
 */
export async function streamed(
  request: Pick<Request, 'signal'>,
  { deed, from, logger, begin, ended = () => {} }: Streaming,
): Promise<Response> {
  const gone = new AbortController()
  const signal = AbortSignal.any([request.signal, gone.signal])
  const steps = begin(signal)[Symbol.asyncIterator]()
  let ahead: Promise<IteratorResult<Progress, void>> | undefined = steps.next()
  if (await settlesWithin(ahead, PATIENCE)) await ahead
  let last: Progress = { done: 0, total: 0 }
  let told = false
  const tell = (level: 'info' | 'warn', end: string, more: object = {}) => {
    if (told) return
    told = true
    ended()
    const message = `${deed.action} of the queue "${deed.queue}" from ${from} ${end}`
    logger[level]({ ...deed, ...last, ...more }, message)
  }
  const leave = () => tell('info', 'stopped: its client went away')
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = ahead ?? steps.next()
        ahead = undefined
        const step = await next
        if (!step.done) {
          last = step.value
          return controller.enqueue(lineOf(last))
        }
        tell('info', 'is done')
        controller.enqueue(lineOf({ result: last }))
        controller.close()
      } catch (error) {
        if (signal.aborted) {
          leave()
          return controller.error(error)
        }
        tell('warn', 'failed', { error })
        controller.enqueue(lineOf({ error: detailsOf(problemOf(error, logger)) }))
        controller.close()
      }
    },
    async cancel() {
      ahead?.catch(() => {})
      gone.abort(new Error('the client went away'))
      await steps.return?.().catch(() => {})
      leave()
    },
  })
  // Proxies such as nginx would otherwise collect the lines.
  return new Response(body, {
    headers: { 'content-type': 'application/x-ndjson', 'x-accel-buffering': 'no' },
  })
}

const encoder = new TextEncoder()

function lineOf(value: object): Uint8Array {
  return encoder.encode(`${JSON.stringify(value)}\n`)
}
