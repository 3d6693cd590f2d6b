import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { connect, disconnect } from '../../postgres/connection.ts'
import { quoteIdentifier } from '../../postgres/schema-name.ts'
import type { Subscriber, SubscriberOptions } from './subscriber.ts'

/** Does what pg-listen does, over clients that the application creates. */
export class CreatedSubscriber implements Subscriber {
  readonly events = new EventEmitter()
  readonly notifications = new EventEmitter()
  readonly #config: ConnectionConfig
  readonly #options: SubscriberOptions
  readonly #channels = new Set<string>()
  #client: pg.Client | undefined

  constructor(config: ConnectionConfig, options: SubscriberOptions) {
    this.#config = config
    this.#options = options
  }

  async connect(): Promise<void> {
    await this.#open()
    this.events.emit('connected')
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    if (client) await disconnect(client)
  }

  getSubscribedChannels(): string[] {
    return [...this.#channels]
  }

  listenTo(channel: string): Promise<unknown> {
    this.#channels.add(channel)
    return this.#send(`LISTEN ${quoteIdentifier(channel)}`)
  }

  unlisten(channel: string): Promise<unknown> {
    this.#channels.delete(channel)
    return this.#send(`UNLISTEN ${quoteIdentifier(channel)}`)
  }

  notify(channel: string, text: string): Promise<unknown> {
    return this.#send('SELECT pg_catalog.pg_notify($1, $2)', [channel, text])
  }

  async #send(text: string, values?: string[]): Promise<unknown> {
    if (!this.#client) throw new Error('Connection terminated')
    return this.#client.query(text, values)
  }

  /** Only a client that listens is lost, and replaced: one that breaks before is a try that failed. */
  async #open(): Promise<void> {
    const client = await connect(this.#config, `SET idle_session_timeout = ${this.#options.idleTimeout}`)
    let ended = false
    const end = () => {
      ended = true
      this.#lose(client)
    }
    client.on('error', end)
    client.on('end', end)
    client.on('notification', ({ channel, payload }) => this.notifications.emit(channel, payload))
    try {
      for (const channel of this.#channels) await client.query(`LISTEN ${quoteIdentifier(channel)}`)
      if (ended || this.#options.isClosed(this)) throw new Error('Connection terminated')
      this.#client = client
    } catch (error) {
      void disconnect(client)
      throw error
    }
  }

  #lose(client: pg.Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    void disconnect(client)
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    while (!this.#options.isClosed(this)) {
      this.events.emit('reconnect')
      try {
        return await this.connect()
      } catch (error) {
        this.events.emit('error', error)
      }
      await sleep(this.#options.pause)
    }
  }
}
