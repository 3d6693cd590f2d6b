import autocannon from 'autocannon'
import type { Load, LoadOptions, Shot } from '../measure/load.ts'

/** Sends requests as fast as the answers come, one after the other on each connection. Each must be answered with success. */
export async function load(options: LoadOptions): Promise<Load> {
  const { url, headers, connections, shots, amount } = options
  const result = await autocannon({
    url,
    headers: { ...headers },
    connections,
    amount: amount * shots.length,
    requests: shots.map(requestOf),
  })
  const { non2xx, errors, duration } = result
  if (non2xx + errors > 0) throw new Error(`${non2xx} requests were refused, and ${errors} failed`)
  return { seconds: duration }
}

/** Of a connection, in a turn. */
interface Turn {
  answer?: string
}

function requestOf({ method, path, body }: Shot): autocannon.Request {
  let number = 0
  return {
    method,
    setupRequest: (one: object, turn: Turn) => {
      const text = typeof body === 'function' ? body(number, turn.answer ?? '') : body
      const request = { ...one, path: path(number), ...(text !== undefined && { body: text }) }
      number += 1
      return request
    },
    onResponse: (_status: number, answer: string, turn: Turn) => {
      turn.answer = answer
    },
  }
}
