// Builds the package into `dist`, or into the folder that it's given; with `--no-types`, without the declarations.
//
// Node takes some 0.5 ms and 100 kB for each file that it loads, and the library has hundreds. So they are joined: what a
// producer loads into one file, and what is loaded on use into a few others.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
const [folder = join(ROOT, 'dist')] = args.filter((arg) => !arg.startsWith('--')).map((arg) => resolve(arg))

const MAIN = 'src/index.ts'
/** The lease's thread has a heap of its own, so it loads no more than it needs. */
const THREADS = ['src/worker/membership/lease-thread.ts', 'src/worker/membership/release-thread.ts']
const STARTED = [
  ...THREADS,
  'src/worker/membership/start-thread.ts',
  'src/cli/main.ts',
  'src/cli/demo/feed-process.ts',
  'src/cli/demo/worker-process.ts',
]
/** Tells where the files of the package are, so it must be in a file of the folder `src`. */
const LOCATION = join(ROOT, 'src/location.ts')

const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const faces = Object.values(exports).flatMap((face) => face['pg-lockstep-source'] ?? [])

rmSync(folder, { recursive: true, force: true })
const forThreads = await loadedBy(THREADS)
const forProducers = await loadedBy([MAIN])
await (await bundle([...faces, ...STARTED])).write({
  dir: folder,
  entryFileNames: '[name].js',
  chunkFileNames: 'src/[name]-[hash].js',
  // The eight `transactionsOf`, in stack traces.
  keepNames: true,
  codeSplitting: {
    groups: [
      { name: 'base', priority: 2, test: (id) => forProducers.has(id) && forThreads.has(id) },
      { name: 'core', priority: 1, test: (id) => forProducers.has(id) },
      { name: 'location', test: LOCATION },
    ],
  },
})
if (!args.includes('--no-types')) {
  compile('tsconfig.build.json', folder)
  declareForCommonJs()
}
compile('src/web/client', join(folder, 'src/web/assets'))
cpSync(join(ROOT, 'src/web/assets'), join(folder, 'src/web/assets'), { recursive: true })
cpSync(join(ROOT, 'sql'), join(folder, 'sql'), { recursive: true })
chmodSync(join(folder, 'src/cli/main.js'), 0o755)

function bundle(files) {
  const paths = files.map((file) => file.replace(/^\.\//, ''))
  return rolldown({
    cwd: ROOT,
    input: Object.fromEntries(paths.map((path) => [path.replace(/\.ts$/, ''), path])),
    external: (id) => /^[@\w]/.test(id) && !paths.includes(id),
    platform: 'node',
    tsconfig: 'tsconfig.build.json',
  })
}

/** The modules of ours that these files load at once: not what they import on use. */
async function loadedBy(files) {
  const { output } = await (await bundle(files)).generate()
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]))
  const modules = new Set()
  const visit = (chunk) => {
    if (!chunk || !chunks.delete(chunk.fileName)) return
    for (const id of chunk.moduleIds) modules.add(id)
    for (const fileName of chunk.imports) visit(chunks.get(fileName))
  }
  for (const chunk of output.filter(({ isEntry }) => isEntry)) visit(chunk)
  return modules
}

/**
 * The declarations for those who `require`: the same text, in a folder whose files are CommonJS. A module's own declarations
 * would not do, since to a compiler those of ESM can't be required. And a default import, as sources have it of pg, takes
 * esModuleInterop.
 */
function declareForCommonJs() {
  const into = join(folder, 'require')
  for (const file of declarations()) {
    const text = readFileSync(join(folder, file), 'utf8').replace(
      /^import (type )?pg from 'pg'/m,
      "import $1* as pg from 'pg'",
    )
    writeFileSync(join(folder, file), text)
    mkdirSync(dirname(join(into, file)), { recursive: true })
    writeFileSync(join(into, file), text)
  }
  writeFileSync(join(into, 'package.json'), '{ "type": "commonjs" }\n')
}

function declarations() {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.d.ts'))
}

function compile(project, into) {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const { status } = spawnSync(process.execPath, [compiler, '-p', join(ROOT, project), '--outDir', into], {
    stdio: 'inherit',
  })
  if (status !== 0) process.exit(1)
}
