import type { Duplex } from 'node:stream'
import type { Logger } from '../../logger.ts'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { isConnectionFailure, toLockstepError } from '../../postgres/failure.ts'
import { echo, type Message, parseMessage } from '../../store/wake.ts'
import { Bell } from '../lifecycle/bell.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import { createSubscriber, type Subscriber } from './subscriber.ts'

const RECONNECT_PAUSE = 500
/**
 * ms of silence after which the connection is checked: at random between the two, so that of many processes one asks, and
 * the others hear it too.
 */
const [SHORTEST_SILENCE, LONGEST_SILENCE] = [10_000, 20_000]
/** ms that the answer to a check may take. */
const ECHO_TIMEOUT = 3_000
/**
 * ms after which the server ends a session that sends nothing. A replaced session would otherwise live on if something on
 * the way keeps answering for its connection.
 */
const IDLE_TIMEOUT = 60_000
/** ms after which a session sends a statement that no one hears, since it may hear others and never need to ask. */
const KEEP_ALIVE_EVERY = IDLE_TIMEOUT / 2
/** ms that LISTEN may take; on a half-open connection it is never answered. */
const LISTEN_TIMEOUT = 5_000

const NOT_LISTENING = 'no wake-up connection: polling'

/**
 * Hears NOTIFY on a connection of its own. It reconnects for ever. If it hears nothing for a while, it sends itself a
 * message, and so finds a connection that is half-open, or whose LISTEN went missing, and replaces it. Meanwhile polling
 * carries on.
 */
export class Listener implements Service {
  readonly #config: ConnectionConfig
  readonly #channel: string
  readonly #logger: Logger
  readonly #onMessage: (message: Message) => void
  readonly #name = `${process.pid}-${Math.random().toString(36).slice(2)}`
  readonly #echoed = new Bell()
  readonly #checking = new Loop(() => this.#check())
  /** Whether anything was heard since it connected. */
  #heard = false
  /** When it connected, or last heard something; and when it last asked something. */
  #since = 0
  #askedAt = 0
  #subscriber: Subscriber | undefined
  /** Of all subscribers; one at a time, or two while a connection is replaced. */
  readonly #sockets = new Set<Duplex>()

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

  /** Whether messages that others send now would be heard, as far as this can be known. */
  get hears(): boolean {
    return this.#heard && performance.now() - this.#since < LONGEST_SILENCE + ECHO_TIMEOUT
  }

  /** If no connection hears, the worker polls, and the listener tries again at each check. */
  async start(): Promise<void> {
    await this.#listen().catch((error: Error) => {
      if (!isConnectionFailure(error)) throw toLockstepError(error)
      this.#logger.warn({ event: 'wakeUps', error: error.message }, NOT_LISTENING)
    })
    await this.#checking.start()
  }

  async stop(): Promise<void> {
    const stopped = this.#checking.stop()
    this.#echoed.ring()
    // It may be connecting, which may take long.
    if (!this.#heard) this.#cutOff()
    await stopped
    await this.#close()
  }

  async #listen(): Promise<void> {
    const subscriber: Subscriber = createSubscriber(this.#config, {
      pause: RECONNECT_PAUSE,
      idleTimeout: IDLE_TIMEOUT,
      callTimeout: LISTEN_TIMEOUT,
      isClosed: (one) => this.#subscriber !== one,
      onSocket: (socket) => this.#watch(socket),
    })
    this.#subscriber = subscriber
    subscriber.events.on('error', (error) =>
      this.#logger.debug({ error: error.message }, 'wake-up connection closed'),
    )
    let connected = false
    subscriber.events.on('reconnect', () => {
      // The pause before this try may have begun before the subscriber was closed.
      if (this.#subscriber !== subscriber) throw new Error('closed')
      // The first connection may fail too: whoever waits for it reports that.
      if (connected) this.#logger.warn({ event: 'wakeUps' }, 'the wake-up connection broke: reconnecting')
      connected = false
      this.#beginAnew()
    })
    subscriber.events.on('connected', () => {
      connected = true
      this.#connected(subscriber)
    })
    // Anyone may send NOTIFY without a payload.
    subscriber.notifications.on(this.#channel, (text?: string) => {
      if (this.#subscriber === subscriber) this.#hear(parseMessage(text ?? ''))
    })
    this.#beginAnew()
    await subscriber.connect()
    await subscriber.listenTo(this.#channel)
    this.#connected(subscriber)
  }

  #watch(socket: Duplex): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  #beginAnew(): void {
    this.#heard = false
    this.#since = performance.now()
  }

  /** One comparison of everything finds what was missed while nothing listened. */
  #connected(subscriber: Subscriber): void {
    if (this.#subscriber !== subscriber) return void subscriber.close().catch(() => {})
    // The first time, it does not listen yet.
    if (subscriber.getSubscribedChannels().length === 0) return
    this.#ask(subscriber)
    this.#onMessage({ kind: 'rebalance' })
  }

  /** Any message, whoever sent it, shows that the connection hears. */
  #hear(message: Message): void {
    this.#heard = true
    this.#since = performance.now()
    this.#echoed.ring()
    if (message.kind !== 'echo') this.#onMessage(message)
  }

  #ask(subscriber: Subscriber): void {
    this.#askedAt = performance.now()
    Promise.resolve(subscriber.notify(this.#channel, echo(this.#name))).catch(() => {})
  }

  /** Sends a statement that no one hears: an echo would reach all processes. */
  #keepAlive(subscriber: Subscriber): void {
    this.#askedAt = performance.now()
    const unused = `unused ${this.#name}`
    const listens = subscriber.getSubscribedChannels().includes(unused)
    const sent = listens ? subscriber.unlisten(unused) : subscriber.listenTo(unused)
    Promise.resolve(sent).catch(() => {})
  }

  async #check(): Promise<void> {
    const silence = SHORTEST_SILENCE + Math.random() * (LONGEST_SILENCE - SHORTEST_SILENCE)
    const [checkAt, keepAliveAt] = [this.#since + silence, this.#askedAt + KEEP_ALIVE_EVERY]
    await this.#checking.alarm.wait(Math.min(checkAt, keepAliveAt) - performance.now())
    const subscriber = this.#subscriber
    if (!subscriber || this.#checking.stopping) return
    const now = performance.now()
    if (now >= keepAliveAt) this.#keepAlive(subscriber)
    if (now < this.#since + silence) return
    const before = this.#since
    this.#ask(subscriber)
    // One bell for the answer and for the stop: if two waits raced, the slower one's timer would keep the process alive.
    await this.#echoed.wait(ECHO_TIMEOUT)
    if (this.#since > before || this.#checking.stopping) return
    this.#logger.warn({ event: 'wakeUps' }, 'the wake-up connection hears nothing: replacing it')
    await this.#close()
    if (this.#checking.stopping) return
    await this.#listen().catch((error: Error) =>
      this.#logger.warn({ event: 'wakeUps', error: error.message }, NOT_LISTENING),
    )
  }

  /** A connection that has gone silent never closes by itself, and would keep the process alive: it is cut off. */
  async #close(): Promise<void> {
    const closing = this.#subscriber?.close().catch(() => {})
    this.#subscriber = undefined
    this.#heard = false
    await Promise.race([closing, this.#echoed.wait(1_000)])
    this.#echoed.ring()
    this.#cutOff()
  }

  #cutOff(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}
