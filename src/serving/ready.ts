/** Bodies as they were given: to read them from their responses takes longer than to send them. */
const ready = new WeakMap<Response, Buffer>()

/** A response whose body is there already. Its length is told, so that it needs no chunks. */
export function readyResponse(
  body: string,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response {
  const bytes = Buffer.from(body)
  const response = new Response(bytes, {
    status,
    headers: { 'content-length': String(bytes.length), ...headers },
  })
  ready.set(response, bytes)
  return response
}

/** What is left of its body. */
export async function bytesOf(response: Response): Promise<Buffer> {
  return ready.get(response) ?? Buffer.from(await response.arrayBuffer())
}
