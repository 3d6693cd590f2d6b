import { fileURLToPath } from 'node:url'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { Laboratory } from './mutants/laboratory.ts'
import { MUTANTS } from './mutants/mutants.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const server = await startEmbeddedPostgres({ settings: { fsync: 'off', full_page_writes: 'off' } })
const lab = new Laboratory({
  root: ROOT,
  serverUrl: server.connectionString,
  signal: new AbortController().signal,
})
for (const m of MUTANTS) {
  if (
    !/completion without|by payload count|no sort|equal payload|score by max|release that|deletes all|forgets the cut|beyond maxPayloads|fold into|suspects|crashes not|hastens|death of|takes equal|requeued|what is in work|fence counted|mark of the next|keeps its row|cursor/.test(
      m.name,
    )
  )
    continue
  const t = Date.now()
  const r = await lab.examine({ ...m, tests: ['model/model'] })
  console.log(
    r.verdict,
    '|',
    m.name,
    '|',
    Math.round((Date.now() - t) / 1000),
    's |',
    (r.reason ?? '').slice(0, 100).replaceAll('\n', ' '),
  )
}
lab.close()
await server.stop()
