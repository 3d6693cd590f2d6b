import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../src/postgres/embedded.ts'
import { Command, lockstep } from '../../cli/command.ts'
import { answersOf, codeIn, isInstalled, printed, shapeOf } from '../../support/docs-code.ts'
import { useGateways } from './gateway.ts'

const DOCS = 'docs/http.md'
const TEXT = readFileSync(DOCS, 'utf8')
const { env, open } = useGateways()

let variables: NodeJS.ProcessEnv

beforeEach(async () => {
  const { site } = await open({ access: 'tokens' })
  const name = `docs ${Math.random()}`
  const { token } = await env.lockstep.createToken({ name, scopes: ['produce', 'consume', 'admin'] })
  variables = {
    ...process.env,
    URL: `${site.origin}/v1`,
    AUTH: `Authorization: Bearer ${token}`,
    JSON: 'Content-Type: application/json',
  }
})

const hasCurl = await isInstalled('curl')
const hasPython = await isInstalled('python3')
const hasPerl = await isInstalled('perl', ['-MOpenAPI::Client', '-e', '1'])

/** The requests of the quick start in order, with the answer to the last of each block if one is shown. */
function examples(): { readonly script: string; readonly answer: string | undefined }[] {
  const section = TEXT.split('### Push')[1]!.split('\n## ')[0]!
  const blocks = section.matchAll(/```sh\n(.*?)```(?:\n\n```json\n(.*?)```)?/gs)
  return [...blocks].map(([, script, answer]) => ({ script: script!, answer }))
}

describe.skipIf(!hasCurl)('with curl', () => {
  test('what the quick start says makes a token, and leads to `lockstep serve`', {
    timeout: 60_000,
  }, async () => {
    const [creation, exports] = codeIn(DOCS, 'Quick start', 'sh') as [string, string]
    const [, ...args] = creation.trim().split(' ')
    const database = { DATABASE_URL: env.connectionString }
    const [token] = /lockstep_[\w-]+/.exec((await lockstep(args, { env: database })).stdout)!
    const port = `${await freePort()}`
    const gateway = new Command(['serve', '--json', '--port', port, '--admin-port', '0'], { env: database })
    env.later(async () => {
      gateway.child.kill('SIGTERM')
      await gateway.ended
    })
    await gateway.line((line) => 'url' in line)
    const set = exports.replace('7777', port).replace('lockstep_...', token)
    expect(await answersOf(`${set}\n${examples()[0]!.script.replaceAll('orders', 'served')}`)).toEqual([
      { stored: 1 },
    ])
  })

  test('each request of the quick start is answered as it says', { timeout: 120_000 }, async () => {
    const all = examples()
    expect(all.length).toBeGreaterThan(14)
    let [fence, round] = ['', '']
    for (const { script, answer } of all) {
      const values = await answersOf(
        script.replaceAll(/4711\.[\w.]+/g, round).replaceAll('4711', fence),
        variables,
      )
      expect(values.length).toBeGreaterThan(0)
      fence = values[0]?.jobs?.[0]?.fence ?? fence
      round = values[0]?.round ?? round
      if (!answer) continue
      const shown = JSON.parse(answer)
      expect(shapeOf(values.at(-1))).toEqual(shapeOf(shown))
      if ('round' in shown) expect(values.at(-1)).toEqual({ ...shown, round })
      else if ('held' in shown || 'stored' in shown || 'results' in shown)
        expect(values.at(-1)).toEqual(shown)
    }
    const routes = (script: string) => script.replaceAll(/\$URL|\?[^"]*/g, '')
    const called = all.map(({ script }) => routes(script)).join('\n')
    for (const path of [
      'claim',
      'extend',
      'complete',
      'fail',
      'release',
      'peek',
      'jobs',
      'results/sum-1',
      'dead',
      'stats',
      'reshard',
    ])
      expect(called).toMatch(new RegExp(`/${path}["/]`))
  })
})

describe.skipIf(!hasPython)('with Python’s standard library', () => {
  test('a script pushes, claims and completes', { timeout: 60_000 }, async () => {
    const [script] = codeIn(DOCS, 'From Python', 'python')
    expect(await printed('python3', ['-'], { input: script!, env: variables })).toBe('anna [1, 2]\n')
    const rows = await env.sql("SELECT FROM lockstep.waiting WHERE queue = 'mails'")
    expect(rows).toEqual([])
  })
})

describe.skipIf(!hasPerl)('with a client that Perl’s OpenAPI::Client makes from the description', () => {
  test('a script pushes, claims and completes', { timeout: 60_000 }, async () => {
    // It would load the schema of such descriptions from spec.openapis.org. That ours is one is tested elsewhere.
    const schema = 'https://spec.openapis.org/oas/3.1/schema/2021-05-20'
    const cache = await mkdtemp(join(tmpdir(), 'pg-lockstep-perl-'))
    onTestFinished(() => rm(cache, { recursive: true }))
    await writeFile(join(cache, createHash('md5').update(schema).digest('hex')), `{"$id": "${schema}"}`)
    variables.JSON_VALIDATOR_CACHE_PATH = cache
    const [script] = codeIn(DOCS, 'A client made from the description', 'perl')
    expect(await printed('perl', ['-'], { input: script!, env: variables })).toBe('bert 1 2\n')
    expect(await env.sql("SELECT FROM lockstep.waiting WHERE queue = 'mails'")).toEqual([])
  })
})

test.runIf(!hasCurl || !hasPython || !hasPerl)(
  'curl, python3 or Perl’s OpenAPI::Client is not installed: their examples were skipped',
  () => {
    expect(hasCurl && hasPython && hasPerl).toBe(false)
  },
)

test('the code about mounting is a part of an example', () => {
  const lines = (text: string) =>
    text
      .trim()
      .split('\n')
      .map((line) => line.trim())
      .join('\n')
  const blocks = [...TEXT.matchAll(/```ts\n\/\/ (\w+\.ts)\n(.*?)```/gs)]
  expect(blocks).toHaveLength(4)
  for (const [, file, code] of blocks)
    expect(lines(readFileSync(`docs/examples/http/${file}`, 'utf8'))).toContain(lines(code!))
})
