import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { VERSION } from '../src/version.ts'
import { createDatabase, type TestDatabase } from './support/database.ts'

const run = promisify(execFile)
let database: TestDatabase
let folder: string

beforeAll(async () => {
  database = await createDatabase()
  // Inside the project, so that the package can import itself by name.
  folder = await mkdtemp(join(import.meta.dirname, '.readme-'))
})

afterAll(async () => {
  await database.drop()
  await rm(folder, { recursive: true })
})

test('the quick start of the README runs as it stands, and keeps the order', async () => {
  const block = /^## Quick start\b.*?^```ts\n(.*?)^```/ms.exec(await readFile('README.md', 'utf8'))
  expect(block![1]!.trim().split('\n').length).toBeLessThanOrEqual(22)
  const script = join(folder, 'quick-start.ts')
  await writeFile(script, block![1]!)
  const { stdout } = await run(
    process.execPath,
    ['--conditions=pg-lockstep-source', '--import', 'tsx', script],
    {
      env: { ...process.env, DATABASE_URL: database.connectionString },
    },
  )
  expect(stdout.trim()).toBe('order-1 created → paid')
})

test('the test file of the README passes as it stands', async () => {
  const block = /^## Testing\b.*?^```ts\n(.*?)^```/ms.exec(await readFile('README.md', 'utf8'))
  expect(block![1]!.trim().split('\n').length).toBeLessThanOrEqual(35)
  const script = join(folder, 'orders.test.mts')
  await writeFile(script, block![1]!)
  const { stdout } = await run(process.execPath, [
    '--conditions=pg-lockstep-source',
    '--import',
    'tsx',
    '--test',
    '--test-reporter=tap',
    script,
  ])
  expect(stdout).toMatch(/^# pass 1$/m)
})

test('the version in the code is that of the package', async () => {
  expect(JSON.parse(await readFile('package.json', 'utf8')).version).toBe(VERSION)
})
