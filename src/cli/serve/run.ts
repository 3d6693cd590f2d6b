import { setTimeout as sleep } from 'node:timers/promises'
import { createApi } from '../../http/api/api.ts'
import { BASE, patternOf } from '../../http/api/pattern.ts'
import { byPool } from '../../http/by-pool.ts'
import { nodeListener } from '../../http/from-node.ts'
import { defineBeside } from '../../http/lmstfy/definition.ts'
import { createLmstfy, type LmstfyParts } from '../../http/lmstfy/lmstfy.ts'
import type { LmstfyOptions } from '../../http/lmstfy/options.ts'
import { type Observed, observed } from '../../http/observed.ts'
import { Probes } from '../../http/probes.ts'
import { byPrefix, GatewayServer } from '../../http/server.ts'
import { onInterruption } from '../interruption.ts'
import { stopWithoutParent } from '../orphan.ts'
import { note, write, writeJson } from '../output.ts'
import type { ServeFlags } from '../serve.ts'
import { type GatewayConfig, readConfig } from './config.ts'
import { openPools, type Pools, requireReady } from './pools.ts'

/** ms that requests have to end: with what else has to, it fits into the 30 s of Kubernetes. */
const GRACE = 25_000

/** Serves until a signal comes. */
export async function runGateway(
  flags: ServeFlags,
  ports: { readonly port: number; readonly adminPort: number },
): Promise<void> {
  const config = await readConfig(flags, ports)
  const pools = openPools(config.pools)
  try {
    const lmstfy = createLmstfy({ pools: namedPools(pools), ...config.lmstfy })
    await requireReady(pools)
    const interrupted = new Promise<void>((resolve) => void onInterruption(() => resolve()))
    stopWithoutParent()
    const close = await openGateway(flags, config, pools, lmstfy)
    await interrupted
    await close()
  } finally {
    await Promise.all([...pools.values()].map((pool) => pool.close()))
  }
}

function namedPools(pools: Pools): LmstfyOptions['pools'] {
  const options = [...pools].map(([name, { lockstep, migrateTo }]) => [
    name,
    migrateTo === undefined ? lockstep : { lockstep, migrateTo },
  ])
  return Object.fromEntries(options)
}

/** Resolves to what stops it: load balancers are told first, consumes that wait are answered, then everything else ends. */
async function openGateway(
  { json }: ServeFlags,
  config: GatewayConfig,
  pools: Pools,
  { api, admin, bodies, note: noteAnswer, quiet, stop }: LmstfyParts,
): Promise<() => Promise<void>> {
  const inCommon = { define: defineBeside, bodies }
  const apis = new Map(
    [...pools].map(([name, { lockstep }]) => [name, createApi(lockstep, { access: 'tokens' }, inCommon)]),
  )
  const probes = new Probes(new Map([...pools].map(([name, { ask }]) => [name, ask])))
  const health = { '/healthz': nodeListener(probes.live), '/readyz': nodeListener(probes.ready) }
  const v1 = byPool(
    new Map(
      [...apis].map(([name, { node }]) => [
        name,
        observed(node, (answer) => noteAnswer(name, answer, patternOf(answer.path))),
      ]),
    ),
  )
  const noteMalformed = (answer: Observed) => noteAnswer('', answer, undefined)
  const servers = [
    new GatewayServer(byPrefix({ '': nodeListener(api), [BASE]: v1, ...health }), config.api, noteMalformed),
    new GatewayServer(byPrefix({ '': nodeListener(admin), ...health }), config.admin, noteMalformed),
  ]
  const urls: string[] = []
  for (const server of servers) urls.push(await server.listen())
  const [url, adminUrl] = urls
  if (json) writeJson({ url, adminUrl })
  else
    write(
      `serving ${url}/v1, and lmstfy's API under ${url}/api\nadministration at ${adminUrl}\nCtrl-C stops the gateway.`,
    )
  return async () => {
    note('stopping')
    probes.stopping()
    for (const server of servers) server.closeAnswered()
    await sleep(config.drainDelay * 1_000)
    for (const server of servers) server.drain()
    quiet()
    const stopping = [...apis.values()].map((one) => one.stop())
    await Promise.all(servers.map((server) => server.ended(GRACE)))
    await Promise.all([stop(), ...stopping])
  }
}
