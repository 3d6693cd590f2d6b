// Packs the package, installs it beside nothing but pg in an empty folder, and runs the README's quick start there.
// So a file missing from the package, an import of something optional, and an outdated README all fail here, and so does
// what npm would warn of: a script that runs when the package is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = process.argv[2]
const script = join(folder, 'quick-start.ts')

mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
writeFileSync(script, quickStart())
run(root, 'npm', 'pack', '--silent', '--pack-destination', folder)
install('--omit=optional', tarball(), 'pg')
checkScripts()
checkTypes()
await runQuickStart()

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

/** As an application in TypeScript would: with the declarations that were packed. */
function checkTypes() {
  const node = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--target',
    'es2023',
    '--module',
    'nodenext',
    ...node,
  ]
  run(folder, join(root, 'node_modules/.bin/tsc'), '--ignoreConfig', ...options, script)
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
