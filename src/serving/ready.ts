/** Bodies as they were given: to read them from their responses takes longer than to send them. */
const ready = new WeakMap<Response, Buffer>()

/** A response whose body is there already. */
export function readyResponse(body: string, init: ResponseInit): Response {
  const bytes = Buffer.from(body)
  const response = new Response(bytes, init)
  ready.set(response, bytes)
  return response
}

/** What is left of its body. */
export async function bytesOf(response: Response): Promise<Buffer> {
  return ready.get(response) ?? Buffer.from(await response.arrayBuffer())
}
