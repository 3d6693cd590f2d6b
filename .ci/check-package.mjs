// Packs the package, installs it beside nothing but pg in an empty folder, and runs the README's quick start there. Then
// compiles what an application may do with it, telemetry included.
// So a file missing from the package, an import of something optional, and an outdated README all fail here, and so does
// what npm would warn of: a script that runs when the package is installed.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = process.argv[2]
const script = join(folder, 'quick-start.ts')

const TYPESCRIPTS = ['5.7', '5.9', '7.0']
const STRICT =
  '--noEmit --strict --exactOptionalPropertyTypes --skipLibCheck false --target es2023 --types node'
const ES_MODULES = ['consumer.mts', 'quick-start.ts', 'pooled.mts']
/** Settings under which a file can be CommonJS, too. */
const COMMON_JS = [
  '--module nodenext --moduleResolution nodenext',
  '--module node16 --moduleResolution node16',
]
const BUNDLER = '--module esnext --moduleResolution bundler'
/** Know no `exports`. TypeScript 7 has them no more. */
const CLASSICAL = ['', ' --esModuleInterop'].map(
  (more) => `--module commonjs --moduleResolution node10${more}`,
)
/** The oldest types of pg, where an application has pinned its own. */
const OLDEST_TYPES_OF_PG = '8.11.0'
const POOLED = `import { defineQueue, Lockstep } from 'pg-lockstep'
import { type ClientBase, Pool } from 'pg'

export const lockstep = new Lockstep({ pool: new Pool() })
export const queue = defineQueue<number>('updates', {
  transactional: true,
  async perform(batch, { tx }) {
    const client: ClientBase = tx
    await client.query('SELECT $1', [batch.size])
  },
})
export const push = (tx: ClientBase) => lockstep.enqueue(queue, { id: 1, payload: 1 }, { tx })
`
const CLASSIC = `import { Lockstep } from 'pg-lockstep'
import { lockstepApi } from 'pg-lockstep/http'
import { otel } from 'pg-lockstep/otel'
import { transactionsOf } from 'pg-lockstep/prisma'
import { prometheus } from 'pg-lockstep/prometheus'
import { drain } from 'pg-lockstep/testing'
import { lockstepWeb } from 'pg-lockstep/web'

export const used = [Lockstep, otel, transactionsOf, prometheus, drain, lockstepApi, lockstepWeb]
`

mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
writeFileSync(script, quickStart())
run(root, 'npm', 'pack', '--silent', '--pack-destination', folder)
install('--omit=optional', tarball(), 'pg')
checkScripts()
checkRequire('pg-lockstep', 'pg-lockstep/testing', 'pg-lockstep/drizzle')
await runQuickStart()
install('--omit=optional', 'prom-client', '@opentelemetry/api')
checkRequire('pg-lockstep/otel', 'pg-lockstep/prometheus')
await checkTypes()

function quickStart() {
  const block = /^## Quick start\b.*?^```ts\n(.*?)^```/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))
  if (!block) throw new Error('README.md has no ```ts block under "## Quick start"')
  return block[1]
}

/** @throws where npm warns of the package */
function install(...what) {
  const { status, stderr } = spawnSync('npm', ['install', '--loglevel=warn', ...what], {
    cwd: folder,
    encoding: 'utf8',
  })
  process.stderr.write(stderr)
  if (status !== 0) throw new Error(`npm install ended with ${status}`)
  const warning = stderr.split('\n').find((line) => /pg-lockstep/.test(line))
  if (warning) throw new Error(`npm warns of the package: ${warning}`)
}

/** Whatever npm it is: not every one warns. */
function checkScripts() {
  const { scripts } = JSON.parse(readFileSync(join(folder, 'node_modules/pg-lockstep/package.json'), 'utf8'))
  const running = [
    'preinstall',
    'install',
    'postinstall',
    'prepublish',
    'preprepare',
    'prepare',
    'postprepare',
  ]
  const found = running.filter((name) => scripts?.[name])
  if (found.length > 0)
    throw new Error(`the package has scripts that run when it is installed: ${found.join(', ')}`)
}

function tarball() {
  return `./${readdirSync(folder).find((name) => name.endsWith('.tgz'))}`
}

/** As applications in TypeScript would, whatever their settings: with the declarations that were packed, checked too. */
async function checkTypes() {
  copyFileSync(join(root, '.ci/consumer.mts'), join(folder, 'consumer.mts'))
  for (const file of ['old.ts', 'old.cts']) writeFileSync(join(folder, file), CLASSIC)
  for (const file of ['pooled.mts', 'pooled.cts']) writeFileSync(join(folder, file), POOLED)
  for (const version of TYPESCRIPTS)
    install('--no-save', '--prefix', compilerOf(version), `typescript@${version}`)
  await compileAll(
    TYPESCRIPTS.flatMap((version) => [
      ...COMMON_JS.map((settings) => ({
        version,
        settings,
        files: [...ES_MODULES, 'old.cts', 'pooled.cts'],
      })),
      { version, settings: BUNDLER, files: ES_MODULES },
      ...(version.startsWith('5') ? CLASSICAL : []).map((settings) => ({
        version,
        settings,
        files: ['old.ts'],
      })),
    ]),
  )
  install('--no-save', `@types/pg@${OLDEST_TYPES_OF_PG}`)
  const [version] = TYPESCRIPTS
  await compileAll(COMMON_JS.map((settings) => ({ version, settings, files: ['pooled.mts', 'pooled.cts'] })))
}

function compilerOf(version) {
  return join(folder, 'typescript', version)
}

/** Two at a time. */
async function compileAll(compilations) {
  const left = compilations.values()
  const some = async () => {
    for (const one of left) await compile(one)
  }
  await Promise.all([some(), some()])
}

async function compile({ version, settings, files }) {
  const tsc = join(compilerOf(version), 'node_modules/typescript/bin/tsc')
  const what = `TypeScript ${version}: ${files.join(', ')}, ${settings}`
  process.stdout.write(`${what}\n`)
  const parameters = [tsc, ...STRICT.split(' '), ...settings.split(' '), ...files]
  await promisify(execFile)(process.execPath, parameters, { cwd: folder }).catch(({ stdout, stderr }) => {
    throw new Error(`${what}\n${stdout}${stderr}`)
  })
}

/** CommonJS, which Node can do since 20.19. */
function checkRequire(...names) {
  const script = names.map(
    (name) => `if (!Object.keys(require('${name}')).length) throw new Error('${name}')`,
  )
  run(folder, process.execPath, '--input-type=commonjs', '--no-warnings', '-e', script.join('\n'))
}

async function runQuickStart() {
  const server = await startEmbeddedPostgres()
  try {
    const env = { ...process.env, DATABASE_URL: server.connectionString }
    const tsx = join(root, 'node_modules/tsx/dist/cli.mjs')
    const output = execFileSync(process.execPath, [tsx, script], {
      cwd: folder,
      env,
      timeout: 60_000,
    }).toString()
    if (output.trim() === '') throw new Error('the quick start printed nothing')
    process.stdout.write(output)
  } finally {
    await server.stop()
  }
}

function run(cwd, command, ...parameters) {
  execFileSync(command, parameters, { cwd, stdio: 'inherit' })
}
