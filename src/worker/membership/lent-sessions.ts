import type { MessagePort } from 'node:worker_threads'
import type pg from 'pg'
import { type ConnectionConfig, passwordOf } from '../../postgres/client.ts'
import { connect, disconnect } from '../../postgres/connection.ts'
import { TYPES } from '../../postgres/types.ts'
import type { SessionLimits } from './lease-session.ts'
import type { Asked, Call, Told } from './main-thread.ts'
import { sentError } from './sent-error.ts'

/** Does for the lease thread what takes functions of the application's: fetches passwords, or opens and uses sessions. */
export class LentSessions {
  readonly #config: ConnectionConfig
  readonly #port: MessagePort
  readonly #sessions = new Map<number, Promise<pg.Client>>()

  constructor(config: ConnectionConfig, port: MessagePort) {
    this.#config = config
    this.#port = port
    port.on('message', (asked: Asked) => void this.#hear(asked))
    // The thread has ended.
    port.on('close', () => {
      for (const session of this.#sessions.keys()) void this.#close(session)
    })
  }

  async #hear({ number, call }: Asked): Promise<void> {
    try {
      this.#tell({ kind: 'answer', number, answer: await this.#answer(call) })
    } catch (error) {
      this.#tell({ kind: 'failed', number, error: sentError(error) })
    }
  }

  #tell(told: Told): void {
    this.#port.postMessage(told)
  }

  async #answer(call: Call): Promise<unknown> {
    if (call.kind === 'password') return passwordOf(this.#config)
    if (call.kind === 'connect') return this.#connect(call.session, call)
    if (call.kind === 'close') return this.#close(call.session)
    const client = await this.#sessions.get(call.session)
    if (!client) throw new Error('Connection terminated')
    const { text, values } = call
    const { rows } = await client.query({ text, values, types: TYPES } as pg.QueryConfig)
    return { rows }
  }

  async #connect(session: number, { limit, setting }: SessionLimits): Promise<void> {
    const limits = { connectionTimeoutMillis: limit, query_timeout: limit }
    const connecting = connect({ ...this.#config, ...limits }, setting)
    this.#sessions.set(session, connecting)
    const client = await connecting
    const lost = () => this.#tell({ kind: 'lost', session })
    client.on('error', lost)
    client.on('end', lost)
  }

  async #close(session: number): Promise<void> {
    const opened = this.#sessions.get(session)
    this.#sessions.delete(session)
    const client = await opened?.catch(() => undefined)
    if (client) await disconnect(client)
  }
}
