import { setTimeout as sleep } from 'node:timers/promises'
import type { Network } from '../../support/network.ts'
import type { Chance } from '../chance.ts'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'

function anyNetwork(cluster: Cluster, chance: Chance): Network {
  return chance.pick([...cluster.workers.posts, ...cluster.producers.posts]).network
}

const cut: Fault = {
  name: 'network cut',
  weight: 6,
  async inject(cluster, chance) {
    const network = anyNetwork(cluster, chance)
    network.cut()
    await sleep(chance.int(0, LEASE))
    network.restore()
  },
}

/** Longer than a lease or shorter. What was sent before arrives when it is over. */
const halfOpen: Fault = {
  name: 'connections half open',
  weight: 4,
  async inject(cluster, chance) {
    const network = anyNetwork(cluster, chance)
    network.silence()
    await sleep(chance.int(LEASE / 4, 2 * LEASE))
    network.restore()
  },
}

/** For good, so that only time-outs show it. */
const stranded: Fault = {
  name: 'connections stranded',
  weight: 2,
  async inject(cluster, chance) {
    anyNetwork(cluster, chance).strand()
    await sleep(LEASE / 4)
  },
}

const slow: Fault = {
  name: 'network slow',
  weight: 4,
  async inject(cluster, chance) {
    const network = anyNetwork(cluster, chance)
    network.slow(chance.int(10, 150))
    await sleep(LEASE)
    network.restore()
  },
}

/** Polling must carry on. */
const deaf: Fault = {
  name: 'wake-up connections deaf',
  weight: 4,
  async inject(cluster) {
    const networks = cluster.workers.posts.map(({ network }) => network)
    for (const network of networks) network.deafen()
    await cluster.probe()
    for (const network of networks) network.restore()
  },
}

export const networkFaults: readonly Fault[] = [cut, halfOpen, stranded, slow, deaf]
