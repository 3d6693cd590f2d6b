import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** What happens to bytes: `silent` is a half-open connection, `deaf` is one that receives no notifications. */
type Weather = 'fine' | 'cut' | 'silent' | 'deaf'

/** ms, of what the host and what the server sends. */
interface Delay {
  readonly sent: number
  readonly answered: number
}

const NO_DELAY: Delay = { sent: 0, answered: 0 }

/**
 * The network between one host and the server: a TCP proxy that can be cut, go silent or become slow.
 *
 * Silence is worse than lost packets: both kernels go on acknowledging, so keepalives notice nothing, and what was sent
 * arrives when the weather is fine again.
 */
export class Network {
  readonly #target: URL
  readonly #server: Server
  readonly #links = new Set<Link>()
  #weather: Weather = 'fine'
  #delay = NO_DELAY
  #refuses = false
  #cutAt: RegExp | undefined

  private constructor(target: URL) {
    this.#target = target
    this.#server = createServer((client) => this.#accept(client))
  }

  /** A network to the server of a connection string. */
  static async to(connectionString: string): Promise<Network> {
    const network = new Network(new URL(connectionString))
    network.#server.listen(0, '127.0.0.1')
    await once(network.#server, 'listening')
    network.#server.unref()
    return network
  }

  get connectionString(): string {
    const url = new URL(this.#target)
    url.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return url.href
  }

  /** Breaks every connection and refuses new ones. */
  cut(): void {
    this.#weather = 'cut'
    for (const link of this.#links) link.destroy()
  }

  /** Refuses new connections; existing ones go on. */
  refuse(): void {
    this.#refuses = true
  }

  /** Cuts once, when the host sends what matches. */
  cutAt(sent: RegExp): void {
    this.#cutAt = sent
  }

  /** Nothing arrives in either direction, and neither end is told. */
  silence(): void {
    this.#change('silent')
  }

  /** Breaks the existing connections for the host alone: to the server they look intact. */
  abandon(): void {
    for (const link of this.#links) link.abandon()
  }

  /**
   * The existing connections stay silent for good, as behind a router that has forgotten them. Neither end notices when
   * the other closes them. New connections work.
   */
  strand(): void {
    for (const link of this.#links) link.strand()
  }

  /** Holds back what the server sends on connections that listen for notifications. */
  deafen(): void {
    this.#change('deaf')
  }

  /** ms by which every piece is delayed: in each direction, or only what the server sends. */
  slow(delay: number, { answersOnly = false } = {}): void {
    this.#delay = { sent: answersOnly ? 0 : delay, answered: delay }
  }

  /** What was held back arrives. */
  restore(): void {
    this.#delay = NO_DELAY
    this.#refuses = false
    this.#change('fine')
  }

  close(): void {
    this.cut()
    this.#server.close()
  }

  #change(weather: Weather): void {
    this.#weather = weather
    for (const link of this.#links) link.follow(weather)
  }

  #watch(sent: string): void {
    if (!this.#cutAt?.test(sent)) return
    this.#cutAt = undefined
    this.cut()
  }

  #accept(client: Socket): void {
    if (this.#weather === 'cut' || this.#refuses) {
      client.on('error', () => {})
      client.destroy()
      return
    }
    const upstream = connect(Number(this.#target.port || 5432), this.#target.hostname)
    const link = new Link(
      client,
      upstream,
      () => this.#delay,
      () => this.#weather,
      (sent) => this.#watch(sent),
    )
    this.#links.add(link)
    link.ended.then(() => this.#links.delete(link))
    link.follow(this.#weather)
  }
}

/** One connection through the network. */
class Link {
  readonly ended: Promise<void>
  readonly #client: Socket
  readonly #upstream: Socket
  #listens = false
  #stranded = false
  #abandoned = false

  constructor(
    client: Socket,
    upstream: Socket,
    delay: () => Delay,
    weather: () => Weather,
    watch: (sent: string) => void,
  ) {
    this.#client = client
    this.#upstream = upstream
    client.setNoDelay(true)
    upstream.setNoDelay(true)
    for (const socket of [client, upstream]) socket.on('error', () => {})
    const ends = [client, upstream].map(
      (socket) => new Promise<void>((end) => socket.on('close', () => end())),
    )
    this.ended = Promise.race(ends)
      .then(() => this.#abandoned || this.#stranded || this.destroy())
      .then(() => Promise.all(ends))
      .then(() => {})
    carry(upstream, client, () => delay().answered)
    carry(
      client,
      upstream,
      () => delay().sent,
      (piece) => {
        const sent = piece.toString('latin1')
        watch(sent)
        if (this.#listens || !/\bLISTEN /.test(sent)) return
        this.#listens = true
        this.follow(weather())
      },
    )
  }

  abandon(): void {
    this.#abandoned = true
    this.#client.destroy()
  }

  strand(): void {
    this.follow('silent')
    this.#stranded = true
  }

  follow(weather: Weather): void {
    if (this.#stranded) return
    flow(this.#client, weather !== 'silent')
    flow(this.#upstream, weather === 'fine' || (weather === 'deaf' && !this.#listens))
  }

  destroy(): void {
    this.#client.destroy()
    this.#upstream.destroy()
  }
}

function flow(socket: Socket, open: boolean): void {
  if (open) socket.resume()
  else socket.pause()
}

/** Keeps the order, also when the delay changes on the way. */
function carry(from: Socket, to: Socket, delay: () => number, watch?: (piece: Buffer) => void): void {
  let last: Promise<unknown> | undefined
  from.on('data', (piece: Buffer) => {
    watch?.(piece)
    const pause = delay()
    if (pause === 0 && last === undefined) {
      to.write(piece)
      return
    }
    const sent: Promise<unknown> = (last ?? Promise.resolve())
      .then(() => sleep(pause))
      .then(() => to.destroyed || to.write(piece))
      .then(() => {
        if (last === sent) last = undefined
      })
    last = sent
  })
}
