/** A line of the API's answer to what may take long. */
export interface Line {
  readonly done?: number
  readonly total?: number
  readonly result?: { readonly done: number }
  readonly error?: { readonly detail?: string; readonly title?: string }
}

function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="lockstep-${name}"]`)?.content ?? ''
}

export function apiPath(path: string): string {
  return `${meta('base')}/api/v1${path}`
}

/** Calls the API, and yields the lines of its answer. Throws what it refuses with, in words. */
export async function* post(path: string, body: unknown): AsyncGenerator<Line> {
  const headers = { 'content-type': 'application/json', 'x-lockstep-token': meta('token') }
  const response = await fetch(apiPath(path), { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(await refusalOf(response))
  for await (const line of linesOf(response)) {
    if (line.error) throw new Error(line.error.detail ?? line.error.title ?? 'it failed')
    yield line
  }
}

/** A number that the API counts: `more` says that there are more than that. */
export async function count(path: string): Promise<{ count: number; more: boolean }> {
  const response = await fetch(apiPath(path))
  if (!response.ok) throw new Error(await refusalOf(response))
  return response.json()
}

async function refusalOf(response: Response): Promise<string> {
  const { detail, title } = await response.json().catch(() => ({}))
  return detail ?? title ?? `the server answered ${response.status}`
}

async function* linesOf(response: Response): AsyncGenerator<Line> {
  if (!response.body) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    const lines = (rest + (value ?? '')).split('\n')
    rest = done ? '' : lines.pop()!
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line)
    if (done) return
  }
}
