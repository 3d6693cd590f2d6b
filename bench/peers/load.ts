import autocannon from 'autocannon'
import type { Load, LoadOptions } from '../measure/load.ts'

/** Sends requests as fast as the answers come, one after the other on each connection. Each must be answered with success. */
export async function load(options: LoadOptions): Promise<Load> {
  const { url, headers, connections, method, body, amount, rate } = options
  let number = 0
  const request = {
    method,
    ...(body !== undefined && { body }),
    setupRequest: (one: object) => {
      const path = options.path(number)
      number += 1
      return { ...one, path }
    },
  }
  const result = await autocannon({
    url,
    headers: { ...headers },
    connections,
    amount,
    ...(rate !== undefined && { overallRate: rate }),
    requests: [request],
  })
  const { non2xx, errors, latency, duration } = result
  if (non2xx + errors > 0) throw new Error(`${non2xx} requests were refused, and ${errors} failed`)
  return { seconds: duration, p50: latency.p50, p95: latency.p97_5, p99: latency.p99 }
}
