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

  async #open(): Promise<void> {
    const client = await connect(this.#config, `SET idle_session_timeout = ${this.#options.idleTimeout}`)
    if (this.#options.isClosed(this)) {
      await disconnect(client)
      throw new Error('closed')
    }
    this.#client = client
    client.on('notification', ({ channel, payload }) => this.notifications.emit(channel, payload))
    client.on('error', () => this.#lose(client))
    client.on('end', () => this.#lose(client))
    for (const channel of this.#channels) await this.listenTo(channel)
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
