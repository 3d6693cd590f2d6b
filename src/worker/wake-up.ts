import pgListen, { type Subscriber } from 'pg-listen'
import type { Logger } from '../logger.ts'
import { type ConnectionConfig, withSetting } from '../postgres/connection.ts'
import { isConnectionFailure, toLockstepError } from '../postgres/failure.ts'
import { echo, type Message, parseMessage } from '../store/wake.ts'
import { Bell } from './bell.ts'
import { Loop, type Service } from './service.ts'

const RECONNECT_PAUSE = 500
/** ms between checks that the connection still hears, and how long an answer may take. */
const CHECK_EVERY = 10_000
const ECHO_TIMEOUT = 3_000
/**
 * ms after which the server ends its session: the checks keep it from that. One that was replaced would live on where something
 * on the way goes on answering for its connection.
 */
const IDLE_TIMEOUT = 6 * CHECK_EVERY
/** ms that LISTEN may take; on a connection that is half open it is never answered. */
const LISTEN_TIMEOUT = 5_000

const NOT_LISTENING = 'no wake-up connection: polling'

/**
 * Hears NOTIFY on a connection of its own. It reconnects for ever, and asks itself something now and then: a
 * connection that is half open, or whose LISTEN went missing, is replaced. Meanwhile polling carries on.
 */
export class WakeUp implements Service {
  readonly #config: ConnectionConfig
  readonly #channel: string
  readonly #logger: Logger
  readonly #onMessage: (message: Message) => void
  readonly #name = `${process.pid}-${Math.random().toString(36).slice(2)}`
  readonly #echoed = new Bell()
  readonly #checking = new Loop(() => this.#check())
  #heard = false
  #subscriber: Subscriber | undefined

  constructor(
    config: ConnectionConfig,
    channel: string,
    logger: Logger,
    onMessage: (message: Message) => void,
  ) {
    this.#config = config
    this.#channel = channel
    this.#logger = logger
    this.#onMessage = onMessage
  }

  /** Without a connection that hears, the worker polls, and tries again at each check. */
  async start(): Promise<void> {
    await this.#listen().catch((error: Error) => {
      if (!isConnectionFailure(error)) throw toLockstepError(error)
      this.#logger.warn({ error: error.message }, NOT_LISTENING)
    })
    await this.#checking.start()
  }

  async stop(): Promise<void> {
    const stopped = this.#checking.stop()
    this.#echoed.ring()
    await stopped
    await this.#close()
  }

  async #listen(): Promise<void> {
    const config = {
      ...withSetting(this.#config, `idle_session_timeout=${IDLE_TIMEOUT}`),
      query_timeout: LISTEN_TIMEOUT,
    }
    const subscriber: Subscriber = pgListen.default(config, {
      // pg-listen has no way to end its retries but a failure to tell the pause.
      retryInterval: () => {
        if (this.#subscriber === subscriber) return RECONNECT_PAUSE
        throw new Error('closed')
      },
      retryLimit: Number.POSITIVE_INFINITY,
      retryTimeout: Number.POSITIVE_INFINITY,
      paranoidChecking: false,
      parse: (text: string) => text,
      serialize: (text: string) => text,
    })
    this.#subscriber = subscriber
    subscriber.events.on('error', (error) =>
      this.#logger.debug({ error: error.message }, 'wake-up connection closed'),
    )
    subscriber.events.on('reconnect', () =>
      this.#logger.warn({}, 'the wake-up connection broke: reconnecting'),
    )
    subscriber.events.on('connected', () => this.#connected(subscriber))
    // Anybody may say nothing: NOTIFY without a payload.
    subscriber.notifications.on(this.#channel, (text?: string) => this.#hear(parseMessage(text ?? '')))
    await subscriber.connect()
    await subscriber.listenTo(this.#channel)
  }

  /** What was said while nobody listened is found by comparing everything once. */
  #connected(subscriber: Subscriber): void {
    if (this.#subscriber === subscriber) this.#onMessage({ kind: 'deal' })
    else subscriber.close().catch(() => {})
  }

  #hear(message: Message): void {
    if (message.kind !== 'echo') this.#onMessage(message)
    else if (message.from === this.#name) {
      this.#heard = true
      this.#echoed.ring()
    }
  }

  async #check(): Promise<void> {
    await this.#checking.alarm.wait(CHECK_EVERY)
    const subscriber = this.#subscriber
    if (!subscriber || this.#checking.stopping) return
    this.#heard = false
    Promise.resolve(subscriber.notify(this.#channel, echo(this.#name))).catch(() => {})
    // One bell for the answer and for the end: of two that race, the slower would keep the process alive for its time.
    await this.#echoed.wait(ECHO_TIMEOUT)
    if (this.#heard || this.#checking.stopping) return
    this.#logger.warn({}, 'the wake-up connection is deaf: replacing it')
    await this.#close()
    await this.#listen().catch((error: Error) => this.#logger.warn({ error: error.message }, NOT_LISTENING))
  }

  /** A half-open connection may take its time to close: that is not waited for long. */
  async #close(): Promise<void> {
    const closing = this.#subscriber?.close().catch(() => {})
    this.#subscriber = undefined
    await Promise.race([closing, this.#echoed.wait(1_000)])
    this.#echoed.ring()
  }
}
