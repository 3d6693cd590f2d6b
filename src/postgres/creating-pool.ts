import type pg from 'pg'
import { type ConnectionConfig, newClient } from './client.ts'
import { ModestPool } from './modest-pool.ts'

/** Who waits for a client of the pool. */
interface Pending {
  readonly timedOut: boolean
  callback(error: unknown, client: undefined, done: () => void): void
}

/** The members of `pg-pool` that its types do not show. */
interface Inside {
  /** Its clients, which it counts. */
  _clients: object[]
  Client: unknown
  newClient(pending: Pending): void
  _pulseQueue(): void
}

const above = ModestPool.prototype as unknown as Inside

/** A pool whose clients are created by a function, which may take a moment. */
export class CreatingPool extends ModestPool {
  readonly #config: ConnectionConfig

  /** `options` are those of the pool itself; `config` is that of its clients. */
  constructor(options: pg.PoolConfig, config: ConnectionConfig) {
    super(options)
    this.#config = config
  }

  /** Its other callers are in `pg-pool`, which creates clients in one step. */
  newClient(pending: Pending): void {
    const inside = this as unknown as Inside
    // Counts for the client until it is there, so that there are never too many.
    const place = {}
    inside._clients.push(place)
    const leave = () => {
      inside._clients = inside._clients.filter((one) => one !== place)
    }
    pooledClient(this.#config).then(
      (client) => {
        leave()
        inside.Client = function take() {
          return client
        }
        above.newClient.call(inside, pending)
      },
      (error) => {
        leave()
        inside._pulseQueue()
        if (!pending.timedOut) pending.callback(error, undefined, () => {})
      },
    )
  }
}

/** The pool calls `connect` with a callback, which a class of the application's may not know. */
async function pooledClient(config: ConnectionConfig): Promise<pg.Client> {
  const client = await newClient(config)
  // The pool listens only once it is called back.
  client.on('error', () => {})
  const connect = client.connect.bind(client)
  const connecting = async () => {
    try {
      return await connect()
    } catch (error) {
      client.connection?.stream.destroy()
      throw error
    }
  }
  return Object.assign(client, {
    connect: (callback: (error: unknown) => void) => void connecting().then(() => callback(null), callback),
  })
}
