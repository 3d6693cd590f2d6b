import autocannon from 'autocannon'
import type { Load, LoadOptions } from '../measure/load.ts'

/** Sends requests as fast as the answers come, one after the other on each connection. Each must be answered with success. */
export async function load(options: LoadOptions): Promise<Load> {
  const { url, headers, connections, method, body, amount } = options
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
    requests: [request],
  })
  const { non2xx, errors, duration } = result
  if (non2xx + errors > 0) throw new Error(`${non2xx} requests were refused, and ${errors} failed`)
  return { seconds: duration }
}
