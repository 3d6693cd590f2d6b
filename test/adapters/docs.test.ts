import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LIBRARIES } from './libraries.ts'
import { versionsOf } from './versions.ts'

const run = promisify(execFile)
const PRELUDE = `import { defineQueue, Lockstep } from '../../../src/index.ts'

const orders = defineQueue<{ status: string }>('orders')
const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
export type Used = [typeof orders, typeof lockstep]
`

let docs: string
let folder: string

beforeAll(async () => {
  docs = await readFile('docs/transactions.md', 'utf8')
  folder = await mkdtemp(join(import.meta.dirname, '.docs-'))
})
afterAll(() => rm(folder, { recursive: true }))

test('the docs name the versions that are tested', () => {
  const rows = [...docs.matchAll(/^\| ([^|]+) \| ([^|]+) \| ([1-9]\d*) of \3 \| ([1-9]\d*) of \4 \|$/gm)]
  expect(rows.map(([, name, versions]) => [name, versions])).toEqual(
    LIBRARIES.map((library) => [library.name, versionsOf(library)]),
  )
})

test('their examples compile', async () => {
  const blocks = [...docs.matchAll(/^```ts\n(.*?)^```/gms)].map(([, block]) => block!)
  // Each section has one, but for the last.
  expect(blocks.length).toBe(docs.match(/^## /gm)!.length - 1)
  for (const [at, block] of blocks.entries())
    await writeFile(join(folder, `${at}.ts`), PRELUDE + block.replace('./prisma', '../prisma'))
  const tsconfig = join(folder, 'tsconfig.json')
  const extended = { extends: '../../../tsconfig.json', include: ['*.ts'] }
  await writeFile(tsconfig, JSON.stringify(extended))
  const { stdout } = await run('npx', ['tsc', '-p', tsconfig]).catch((error) => error)
  expect(stdout).toBe('')
})
