// Writes docs/api from the docstrings: `npm run api`. With --check, fails if docs/api is not what the source says.
// typedoc has a TypeScript of its own here: it does not work with the release that compiles the package.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const docs = fileURLToPath(new URL('../../docs/api', import.meta.url))
const work = mkdtempSync(join(tmpdir(), 'pg-lockstep-api-'))
try {
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefix', here])
  const typedoc = join(here, 'node_modules/typedoc/bin/typedoc')
  execFileSync(process.execPath, [typedoc, '--logLevel', 'Warn', '--out', work], {
    cwd: here,
    stdio: 'inherit',
  })
  const pages = pagesOf(work)
  if (process.argv.includes('--check')) check(pages)
  else write(pages)
} finally {
  rmSync(work, { recursive: true })
}

/** A page for each import, but one for all adapters, which have a function each, and one for both kinds of telemetry. */
function pagesOf(folder) {
  const read = (file) => readFileSync(join(folder, file), 'utf8')
  const index = read('index.md')
  const telemetry = ['prometheus', 'otel'].map((name) => telemetryOf(name, read(`telemetry/${name}.md`)))
  const adapters = readdirSync(join(folder, 'adapters/faces'))
    .sort()
    .map((file) => adapterOf(file, read(`adapters/faces/${file}`)))
  return {
    'index.md': index.replace(/^# .*/, '# pg-lockstep'),
    'testing.md': read('testing.md').replace(/^# .*/, '# pg-lockstep/testing'),
    'telemetry.md': `# Telemetry\n\n${telemetry.join('\n')}`,
    'http.md': read('http.md').replace(/^# .*/, '# pg-lockstep/http'),
    'web.md': read('web.md').replace(/^# .*/, '# pg-lockstep/web'),
    'adapters.md': `# The adapters\n\n${adapters.join('\n')}`,
  }
}

function telemetryOf(name, page) {
  const rest = page
    .replaceAll(/^##? .*\n*|^\*\*\*\n*/gm, '')
    .replaceAll('](../', '](')
    .replaceAll('id="property-', `id="${name}-`)
  return `## pg-lockstep/${name}\n\n${rest}`
}

function adapterOf(file, page) {
  const name = file.replace(/\.md$/, '')
  const rest = page
    .slice(page.indexOf('### transactionsOf()'))
    .replaceAll('](../../', '](')
    .replaceAll(/id="type-parameter-/g, `id="${name}-`)
  return `## pg-lockstep/${name}\n\n${rest}`
}

function write(pages) {
  mkdirSync(docs, { recursive: true })
  for (const [file, text] of Object.entries(pages)) writeFileSync(join(docs, file), text)
}

function check(pages) {
  const old = Object.entries(pages)
    .filter(
      ([file, text]) => !existsSync(join(docs, file)) || readFileSync(join(docs, file), 'utf8') !== text,
    )
    .map(([file]) => `docs/api/${file}`)
  if (old.length === 0) return
  console.error(`${old.join(', ')}: not what the docstrings say. Run \`npm run api\`, and commit the result`)
  process.exitCode = 1
}
