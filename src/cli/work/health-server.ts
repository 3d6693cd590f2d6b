import { createServer } from 'node:http'
import type { Verdicts } from '../../health.ts'
import type { Logger } from '../../index.ts'
import { probeListener } from '../../probes.ts'
import { UsageError } from '../failure.ts'
import type { WorkFlags } from './flags.ts'

/** Where probes are answered. */
export interface HealthAddress {
  readonly port: number
  /** All interfaces if undefined: Kubernetes probes a container at the address of its pod. The answers tell of no job. */
  readonly host: string | undefined
}

/** @throws UsageError for a host without a port */
export function healthAddress({ healthPort, healthHost }: WorkFlags): HealthAddress | undefined {
  if (healthPort !== undefined) return { port: healthPort, host: healthHost }
  if (healthHost !== undefined) throw new UsageError('--health-host needs --health-port')
  return undefined
}

/**
 * Answers probes until the process ends, which it does not keep from ending.
 * @throws UsageError if it can't listen there
 */
export async function serveHealth(
  { port, host }: HealthAddress,
  look: () => Verdicts | Promise<Verdicts>,
  logger: Logger,
): Promise<void> {
  const server = createServer(probeListener(look))
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new UsageError(`--health-port ${port}: ${error.message}`)))
    server.listen({ port, host }, resolve)
  })
  server
    .unref()
    .on('error', (error) =>
      logger.error({ event: 'health', error: error.message }, 'answering probes failed'),
    )
  const bound = server.address() as { readonly port: number; readonly address: string }
  const told = { event: 'health', port: bound.port, host: bound.address }
  logger.info(told, `answering probes at port ${bound.port}`)
}
