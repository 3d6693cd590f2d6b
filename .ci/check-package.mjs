// Packs the package, installs it beside nothing but pg in an empty folder, and runs the README's quick start there.
// So a file missing from the package, an import of something optional, and an outdated README all fail here.
import { execFileSync } from 'node:child_process'
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
run(folder, 'npm', 'install', '--silent', '--omit=optional', tarball(), 'pg')
checkTypes()
await runQuickStart()

function quickStart() {
  const block = /^## Quick start\b.*?^```ts\n(.*?)^```/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))
  if (!block) throw new Error('README.md has no ```ts block under "## Quick start"')
  return block[1]
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
