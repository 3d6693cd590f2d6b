import type { MessagePort } from 'node:worker_threads'
import { inTime } from '../../postgres/client.ts'
import type { LeaseSession, SessionLimits } from './lease-session.ts'
import { errorOf, type SentError } from './sent-error.ts'

/** What a thread asks the main thread to do. Sessions have numbers of the thread's. */
export type Call =
  | { readonly kind: 'password' }
  | ({ readonly kind: 'connect'; readonly session: number } & SessionLimits)
  | { readonly kind: 'query'; readonly session: number; readonly text: string; readonly values?: unknown[] }
  | { readonly kind: 'close'; readonly session: number }

export interface Asked {
  readonly number: number
  readonly call: Call
}

/** An answer, or that a session has broken. */
export type Told =
  | { readonly kind: 'answer'; readonly number: number; readonly answer: unknown }
  | { readonly kind: 'failed'; readonly number: number; readonly error: SentError }
  | { readonly kind: 'lost'; readonly session: number }

interface Waiting {
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** The main thread as the lease thread sees it: it may be busy, and then answers late. */
export class MainThread {
  readonly #port: MessagePort
  readonly #waiting = new Map<number, Waiting>()
  readonly #losses = new Map<number, () => void>()
  #calls = 0
  #sessions = 0

  constructor(port: MessagePort) {
    this.#port = port
    port.on('message', (told: Told) => this.#hear(told))
  }

  /** `limit`: ms that it may take. */
  password(limit: number): Promise<string> {
    return this.#ask({ kind: 'password' }, limit) as Promise<string>
  }

  /** A session of the main thread's. */
  async session(limits: SessionLimits): Promise<LeaseSession> {
    const { limit } = limits
    this.#sessions += 1
    const session = this.#sessions
    const close = async () => {
      this.#losses.delete(session)
      await this.#ask({ kind: 'close', session }, limit).catch(() => {})
    }
    try {
      await this.#ask({ kind: 'connect', session, ...limits }, limit)
    } catch (error) {
      // It may be opened later.
      void close()
      throw error
    }
    return {
      query: async (text, values) =>
        (await this.#ask({ kind: 'query', session, text, values }, limit)) as { rows: unknown[] },
      onLost: (tell) => void this.#losses.set(session, tell),
      close,
    }
  }

  #ask(call: Call, limit: number): Promise<unknown> {
    this.#calls += 1
    const number = this.#calls
    const answer = new Promise((resolve, reject) => this.#waiting.set(number, { resolve, reject }))
    this.#port.postMessage({ number, call } satisfies Asked)
    return inTime(answer, limit).finally(() => this.#waiting.delete(number))
  }

  #hear(told: Told): void {
    if (told.kind === 'lost') this.#losses.get(told.session)?.()
    else if (told.kind === 'failed') this.#waiting.get(told.number)?.reject(errorOf(told.error))
    else this.#waiting.get(told.number)?.resolve(told.answer)
  }
}
