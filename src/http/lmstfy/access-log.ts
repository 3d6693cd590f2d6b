import type { Logger } from '../../logger.ts'
import type { Answer, Call } from '../call.ts'
import { CLIENT_LEFT, type Observed } from '../observed.ts'

/** A line for each answered request, at the level info, while it is switched on. Tokens aren't in it. */
export class AccessLog {
  readonly #logger: Logger
  #isOn: boolean

  constructor(logger: Logger, isOn: boolean) {
    this.#logger = logger
    this.#isOn = isOn
  }

  get status(): 'enabled' | 'disabled' {
    return this.#isOn ? 'enabled' : 'disabled'
  }

  switch(isOn: boolean): void {
    this.#isOn = isOn
  }

  /** `pathOf`: the path without what must not be told. */
  around(answer: Answer, pathOf = ({ path }: Call) => path): Answer {
    return async (call) => {
      if (!this.#isOn) return answer(call)
      const begun = performance.now()
      const reply = await answer(call)
      const { method, address, signal } = call
      const status = signal.aborted ? CLIENT_LEFT : reply.status
      const requestId = reply.headers?.['X-Request-ID']
      const duration = performance.now() - begun
      this.tell({ method, path: pathOf(call), status, requestId, duration, address })
      return reply
    }
  }

  tell({ method, path, status, requestId, duration, address }: Observed): void {
    if (!this.#isOn) return
    const ms = Math.round(duration)
    this.#logger.info(
      { event: 'http-access', requestId, method, path, status, ms, address },
      `${method} ${path} ${status}`,
    )
  }
}
