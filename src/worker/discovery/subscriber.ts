import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import pgListen from 'pg-listen'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { withSetting } from '../../postgres/connection.ts'
import { CreatedSubscriber } from './created-subscriber.ts'

/** Hears notifications, and reconnects until it is closed. */
export interface Subscriber {
  readonly events: {
    /** `reconnect` comes before each try. */
    on(event: 'connected' | 'reconnect' | 'error', listener: (error: Error) => void): unknown
  }
  readonly notifications: { on(channel: string, listener: (text?: string) => void): unknown }
  connect(): Promise<void>
  close(): Promise<void>
  getSubscribedChannels(): string[]
  listenTo(channel: string): Promise<unknown> | undefined
  unlisten(channel: string): Promise<unknown> | undefined
  notify(channel: string, text: string): Promise<unknown>
}

export interface SubscriberOptions {
  /** ms between tries to reconnect. */
  readonly pause: number
  /** ms after which the server ends a session that sends nothing. */
  readonly idleTimeout: number
  /** ms that a statement may take. */
  readonly callTimeout: number
  /** Whether it is closed, and has to try no more. */
  isClosed(subscriber: Subscriber): boolean
  /** A connection is about to be opened, which can be cut off. */
  onSocket(socket: Duplex): void
}

type StreamFactory = (given: unknown) => Duplex

/** pg-listen creates its clients itself: it can't use those of the application's. */
export function createSubscriber(config: ConnectionConfig, options: SubscriberOptions): Subscriber {
  const { pause, idleTimeout, callTimeout, isClosed, onSocket } = options
  const limited = { ...config, query_timeout: callTimeout }
  if (config.create) return new CreatedSubscriber(limited, options)
  const stream = (given: unknown) => {
    const socket = (config.stream as StreamFactory | undefined)?.(given) ?? new Socket()
    onSocket(socket)
    return socket
  }
  const subscriber: Subscriber = pgListen.default(
    { ...withSetting(limited, `idle_session_timeout=${idleTimeout}`), stream } as ConnectionConfig,
    {
      // pg-listen ends its retries only if the function for the pause throws.
      retryInterval: () => {
        if (!isClosed(subscriber)) return pause
        throw new Error('closed')
      },
      retryLimit: Number.POSITIVE_INFINITY,
      retryTimeout: Number.POSITIVE_INFINITY,
      paranoidChecking: false,
      parse: (text: string) => text,
      serialize: (text: string) => text,
    },
  ) as Subscriber
  return subscriber
}
