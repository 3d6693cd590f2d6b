import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Bench, Case, Figures } from '../case.ts'
import { type Entrant, LOCKSTEP, type Name, standard } from '../entrants.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { versionsOf } from '../runtime.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PROCESS = fileURLToPath(new URL('../footprint.js', import.meta.url))
const IMPORTS = 21
const ENTRANTS: readonly Entrant[] = standard([LOCKSTEP, 'graphile-worker', 'pg-boss'])

type Role = 'import' | 'produce' | 'work'

interface Footprint {
  /** ms */
  readonly imported: number
  /** bytes */
  readonly rss: number
}

async function footprintOf({ name }: Entrant, role: Role, connectionString: string): Promise<Footprint> {
  const { stdout } = await run(process.execPath, [PROCESS, name, role, connectionString])
  return JSON.parse(stdout)
}

/** The files are in the cache of the system, as they are for a process that is started again. */
async function importing({ entrant, setting }: Bench): Promise<Figures> {
  const times: number[] = []
  for (let at = 0; at < IMPORTS; at += 1)
    times.push((await footprintOf(entrant, 'import', setting.connectionString)).imported)
  return percentilesOf(times)
}

async function resting({ entrant, setting, contender, pool }: Bench, role: Role): Promise<Figures> {
  // Only the process that is measured may be connected.
  await Promise.all([contender.close(), pool.end()])
  const { rss } = await footprintOf(entrant, role, setting.connectionString)
  return { value: rss / 1_000_000 }
}

/** As an application installs it from the registry, with what it needs beside it. */
async function installed<T>({ name }: Entrant, look: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'pg-lockstep-footprint-'))
  try {
    await writeFile(join(folder, 'package.json'), '{}')
    const install = ['install', '--no-audit', '--no-fund', '--no-save', ...(await specifiersOf(name, folder))]
    await run('npm', install, { cwd: folder })
    return await look(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function specifiersOf(name: Name, folder: string): Promise<string[]> {
  if (name !== LOCKSTEP) return (await versionsOf([name])).map((version) => version.replace(' ', '@'))
  await run('npm', ['pack', '--pack-destination', folder], { cwd: ROOT })
  const tarball = (await readdir(folder)).find((file) => file.endsWith('.tgz'))
  return [`./${tarball}`, 'pg']
}

async function countPackages(folder: string): Promise<number> {
  const { stdout } = await run('npm', ['ls', '--all', '--parseable'], { cwd: folder })
  // The first line is the application itself.
  return stdout.trim().split('\n').length - 1
}

async function bytesOf(folder: string): Promise<number> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const sizes = files.map(async (file) =>
    file.isFile() ? (await stat(join(file.parentPath, file.name))).size : 0,
  )
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

const ONCE = { jobs: 0, patience: 0 }
const COMMON = { entrants: ENTRANTS, full: ONCE, quick: ONCE, inQuick: false }

export const footprintCases: readonly Case[] = [
  { ...COMMON, name: 'import', title: 'importing it, p50', unit: 'ms', run: importing },
  {
    ...COMMON,
    name: 'producer-memory',
    title: 'memory of a producer at rest',
    unit: 'MB',
    run: (bench) => resting(bench, 'produce'),
  },
  {
    ...COMMON,
    name: 'worker-memory',
    title: 'memory of a worker at rest',
    unit: 'MB',
    run: (bench) => resting(bench, 'work'),
  },
  {
    ...COMMON,
    name: 'installed-packages',
    title: 'packages that it installs',
    unit: 'packages',
    run: async ({ entrant }) => ({ value: await installed(entrant, countPackages) }),
  },
  {
    ...COMMON,
    name: 'installed-size',
    title: 'size of what it installs',
    unit: 'MB',
    run: async ({ entrant }) => ({
      value: await installed(
        entrant,
        async (folder) => (await bytesOf(join(folder, 'node_modules'))) / 1_000_000,
      ),
    }),
  },
]
