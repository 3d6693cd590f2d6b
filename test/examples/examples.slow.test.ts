import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, test } from 'vitest'
import { buildPackage } from '../support/package.ts'
import { copyExample } from './example.ts'
import { Trial } from './trial.ts'

const run = promisify(execFile)
/** ms; npm fetches hundreds of megabytes. */
const DEADLINE = 600_000

let folder: string
let tarball: string
let trial: Trial | undefined

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lockstep-examples-'))
  // With the types, which the one that all tests share has not.
  const built = join(folder, 'built')
  await mkdir(built)
  await buildPackage(built)
  await run('npm', ['pack', '--ignore-scripts', built], { cwd: folder })
  tarball = join(folder, (await readdir(folder)).find((name) => name.endsWith('.tgz'))!)
}, DEADLINE)
afterEach(async () => {
  await trial?.end()
  trial = undefined
})
afterAll(() => rm(folder, { recursive: true }))

/** From the registry, except for this package. */
async function installed(name: string): Promise<Trial> {
  const example = join(folder, name)
  await copyExample(name, example)
  await run('npm', ['install', '--no-audit', '--no-fund', tarball], { cwd: example })
  trial = await Trial.open(example)
  return trial
}

test(
  'Next builds without a database, performs an order in a worker, and both stop',
  async () => {
    const next = await installed('next')
    await next.passesItsTests()
    await next.runs('build')
    await next.performsAnOrder({ scripts: ['start', 'worker'], exitCode: 143 })
  },
  DEADLINE,
)

test(
  'Fastify performs an order in a worker of its own if it is told to',
  async () => {
    const fastify = await installed('fastify')
    await fastify.performsAnOrder({ scripts: ['start', 'worker'], env: { WORKER: 'separate' } })
  },
  DEADLINE,
)
