import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject, test } from 'vitest'
import { copyExample, linkPackages } from './example.ts'
import { Trial } from './trial.ts'

/** ms; each takes some seconds on a machine that does nothing else. */
const DEADLINE = 120_000

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lockstep-examples-'))
})
afterAll(() => rm(folder, { recursive: true }))

/** The example passes its own tests, and performs an order, started as these scripts. */
async function works(name: string, ...scripts: readonly string[]): Promise<void> {
  const example = join(folder, name)
  await copyExample(name, example)
  await linkPackages(example, inject('builtPackage'))
  const trial = await Trial.open(example)
  try {
    await Promise.all([trial.passesItsTests(), trial.performsAnOrder({ scripts })])
  } finally {
    await trial.end()
  }
}

test('Fastify performs an order in its server, and stops', { tags: 'slow', timeout: DEADLINE }, () =>
  works('fastify', 'start'),
)

test(
  'Express performs an order in a worker, and both stop',
  () => works('express', 'start', 'worker'),
  DEADLINE,
)
