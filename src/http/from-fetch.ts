import type { Answer, Call } from './call.ts'

/** Serves requests of the web, for servers that take a function from a Request to a Response. `answer` never rejects. */
export function fetchHandler(answer: Answer): (request: Request) => Promise<Response> {
  return async (request) => {
    const { status, headers, body } = await answer(callOf(request))
    return new Response(status === 204 ? null : (body ?? null), { status, headers })
  }
}

function callOf(request: Request): Call {
  const { pathname, searchParams } = new URL(request.url)
  return {
    method: request.method,
    path: pathname,
    query: searchParams,
    header: (name) => request.headers.get(name) ?? undefined,
    headers: () => request.headers,
    body: (most, onBytes) => bodyOf(request, most, onBytes),
    signal: request.signal,
  }
}

async function bodyOf(
  { body, headers }: Request,
  most: number,
  onBytes?: (bytes: number) => void,
): Promise<Buffer | undefined> {
  if (Number(headers.get('content-length') ?? 0) > most) return undefined
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > most) return undefined
    onBytes?.(chunk.length)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
