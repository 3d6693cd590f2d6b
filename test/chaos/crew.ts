import { setTimeout as sleep } from 'node:timers/promises'
import { Network } from '../support/network.ts'
import type { Chance } from './chance.ts'
import type { Child } from './child.ts'

const RESTART_PAUSE = 100

/** A place in a crew: a host with its own network, and a process that is started again when it ends. */
export interface Post<Options extends object> {
  readonly network: Network
  child: Child<Options>
}

/** Keeps a number of processes alive, each behind its own network. */
export class Crew<Options extends object> {
  readonly posts: Post<Options>[] = []
  readonly #create: (connectionString: string, host: number) => Child<Options>
  readonly #database: string
  #hosts = 0
  #disbanding = false

  constructor(database: string, create: (connectionString: string, host: number) => Child<Options>) {
    this.#database = database
    this.#create = create
  }

  /** Adds a host; resolves when its process is ready. */
  async join(): Promise<Post<Options>> {
    const network = await Network.to(this.#database)
    this.#hosts += 1
    const host = this.#hosts
    const post = { network, child: this.#create(network.connectionString, host) }
    this.posts.push(post)
    void this.#keep(post, host)
    await this.#ready(post)
    return post
  }

  /** Removes a host for good, and stops or kills its process. */
  async leave(post: Post<Options>, how: 'stop' | 'kill'): Promise<void> {
    this.posts.splice(this.posts.indexOf(post), 1)
    await post.child[how]()
    post.network.close()
  }

  pick(chance: Chance): Post<Options> {
    return chance.pick(this.posts)
  }

  async disband(): Promise<void> {
    this.#disbanding = true
    await Promise.all(this.posts.map(({ child }) => child.kill()))
    for (const { network } of this.posts) network.close()
  }

  /** A process that is killed while it starts is started again. */
  async #ready(post: Post<Options>): Promise<void> {
    while (this.#wants(post)) {
      const { child } = post
      try {
        await child.ready()
        return
      } catch (error) {
        if (child.alive) throw error
        await sleep(2 * RESTART_PAUSE)
      }
    }
  }

  #wants(post: Post<Options>): boolean {
    return !this.#disbanding && this.posts.includes(post)
  }

  async #keep(post: Post<Options>, host: number): Promise<void> {
    for (;;) {
      await post.child.ended
      if (!this.#wants(post)) return
      await sleep(RESTART_PAUSE)
      if (!this.#wants(post)) return
      post.child = this.#create(post.network.connectionString, host)
    }
  }
}
