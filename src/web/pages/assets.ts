import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { SOURCE } from '../../location.ts'
import type { WebApp } from '../view.ts'

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}
/** As it is built; the scripts are not there from source. */
const FOLDER = new URL('web/assets/', SOURCE)

interface Asset {
  readonly body: Buffer<ArrayBuffer>
  readonly tag: string
  readonly type: string
}

/** Serves the files beside the pages, and no others. Browsers ask each time whether they have changed. */
export function addAssets(app: WebApp): void {
  let assets: Promise<ReadonlyMap<string, Asset>> | undefined
  app.get('/assets/:name', async (context) => {
    assets ??= load()
    const asset = (await assets).get(context.req.param('name'))
    if (!asset) return context.notFound()
    const headers = { 'content-type': asset.type, etag: asset.tag, 'cache-control': 'no-cache' }
    if (context.req.header('if-none-match') === asset.tag) return context.body(null, 304, headers)
    return context.body(asset.body, 200, headers)
  })
}

async function load(): Promise<ReadonlyMap<string, Asset>> {
  const names = await readdir(FOLDER)
  const assets = names.flatMap(async (name): Promise<[string, Asset][]> => {
    const type = TYPES[name.split('.').pop()!]
    if (type === undefined) return []
    const body = await readFile(new URL(name, FOLDER))
    return [[name, { body, type, tag: `"${createHash('sha256').update(body).digest('base64url')}"` }]]
  })
  return new Map((await Promise.all(assets)).flat())
}
