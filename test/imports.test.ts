import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

/** The layers of the project, the lowest first. Imports go to lower layers, or stay in the same folder. */
const FLOORS: readonly (readonly string[])[] = [
  ['vocabulary'],
  ['postgres'],
  ['store'],
  ['adapters'],
  ['enqueue', 'admin', 'worker'],
  ['consumer'],
  ['lockstep'],
  ['index', 'testing', 'telemetry'],
  ['serving'],
  ['web', 'http'],
  ['cli'],
]

/** The layers of the worker. What its folders share with the user (events, middleware) is below them. */
const ROOMS: readonly (readonly string[])[] = [
  ['events', 'middleware'],
  ['lifecycle'],
  ['maintenance', 'membership'],
  ['schedule'],
  ['settling'],
  ['performing'],
  ['assignment'],
  ['discovery'],
  ['worker'],
]

/** Imports of a command-line module from below the public API, which does not offer these to anyone else. */
const PAST_THE_FACE: readonly string[] = [
  // A file larger than memory is pushed in transactions of many calls, and counted.
  'cli/enqueue/row > enqueue/validation',
  'cli/enqueue/row > store/push',
  'cli/enqueue/run > store/push',
  'cli/enqueue/store > enqueue/chunks',
  'cli/enqueue/store > enqueue/refusal',
  'cli/enqueue/store > postgres/database',
  'cli/enqueue/store > postgres/failure',
  'cli/enqueue/store > store/counting',
  'cli/enqueue/store > store/push',
  'cli/enqueue/store > store/queue',
  'cli/connection > lockstep',
  'cli/connection > postgres/connection',
  'cli/connection > postgres/database',
  // Names are checked before anything connects; SQL is printed and not run.
  'cli/connection > postgres/schema-name',
  'cli/migrate > postgres/migrate',
  'cli/migrate > postgres/schema-name',
  'cli/roles > postgres/roles',
  'cli/roles > postgres/schema-name',
  // Whether a gateway can serve a database is checked before it listens.
  'cli/serve/pools > lockstep',
  'cli/serve/pools > postgres/connection',
  'cli/serve/pools > postgres/pool',
  'cli/serve/pools > postgres/release',
  'cli/serve/pools > postgres/rights',
  'cli/serve/pools > postgres/session',
  'cli/top > admin/rates',
  // A process that only works.
  'cli/work/run > worker/membership/last-words',
  // What only the web page shows, and its logger; and the types of that.
  'web/web > admin/insight',
  'web/web > lockstep',
  'web/reads/reads > admin/insight',
  'web/reads/reads > admin/rates',
  'web/pages/minutes > store/minutes',
  'web/pages/queue > store/parts',
  'web/pages/shards > store/parts',
  'web/reads/reads > store/minutes',
  'web/reads/reads > store/parts',
  'web/reads/redaction > store/excerpt',
  // What the HTTP API shows of payloads and results, how it pushes once and claims with all digits, and its logger; and the
  // types of that.
  'http/api/api > admin/insight',
  'http/api/api > lockstep',
  'http/api/route > admin/insight',
  'http/api/route > enqueue/results',
  'http/api/route > lockstep',
  'http/api/routes/result > enqueue/results',
  'http/api/routes/result > store/results',
  'http/api/shown > admin/insight',
  // Tokens and limits of lmstfy's API are no business of the library, nor are the keys of dead payloads.
  'http/lmstfy/access > postgres/database',
  'http/lmstfy/access > store/lmstfy-access',
  'http/lmstfy/admin > postgres/database',
  'http/lmstfy/admin-tokens > store/lmstfy-access',
  'http/lmstfy/gateway > store/lmstfy-access',
  'http/lmstfy/routes > store/lmstfy-access',
  // Nor are its sizes, how it lets dead jobs wait again, and acknowledgements that may be another's.
  'http/lmstfy/jobs > store/sizes',
  'http/lmstfy/lmstfy > lockstep',
  'http/lmstfy/migrating > store/sizes',
  'http/lmstfy/pool > admin/insight',
  'http/lmstfy/pool > lockstep',
  'http/lmstfy/pool > postgres/database',
  'http/lmstfy/pool > store/expire-leased',
  'http/lmstfy/pool > store/respawn',
  'http/lmstfy/pool > store/sizes',
  'http/lmstfy/pool > store/wait-for-pushes',
  'http/lmstfy/sizes > store/sizes',
  // The demo has its own server, and a naive queue for comparison.
  'cli/demo/naive > postgres/failure',
  'cli/demo/database > postgres/embedded',
  'cli/demo/database > postgres/failure',
]

const FACES = new Set(['cli', 'http', 'serving', 'telemetry', 'web'])

/** Packages that reach the server, and who may load them. Types are for everybody. */
const SERVER_PACKAGES: Readonly<Record<string, RegExp>> = {
  pg: /^(postgres\/|cli\/(demo\/|connection$))/,
  kysely: /^(postgres|store)\//,
  'pg-listen': /^worker\/discovery\/subscriber$/,
}

/** Packages that an application need not have, and the only ones who load them. */
const OPTIONAL_PACKAGES: Readonly<Record<string, RegExp>> = {
  'prom-client': /^telemetry\/prometheus$|^http\/lmstfy\/metrics$/,
  hono: /^(http|web)\//,
  zod: /^http\//,
  '@opentelemetry/api': /^telemetry\/(otel|origins)/,
}

interface Import {
  readonly from: string
  readonly to: string
}

/** Of the folder `src`, except what runs in browsers. */
const paths = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
  (file) => /\.tsx?$/.test(file) && !file.startsWith('web/client/'),
)

const sources = paths.map((path) => ({
  from: path.replace(/\.tsx?$/, ''),
  text: readFileSync(join('src', path), 'utf8'),
}))
const files = sources.map(({ from }) => from)

/** Everything that a file imports, exports from elsewhere or loads later, as it is written; without types. */
const loaded = sources.flatMap(({ from, text }) => {
  const found = text.matchAll(
    /^(?:import|export)(?! type\b)(?: [^;'"=]* from)? ['"]([^'"]+)['"]|\bimport\(['"]([^'"]+)['"]/gm,
  )
  return [...found].map((match): Import => ({ from, to: match[1] ?? match[2]! }))
})

const imports = sources.flatMap(({ from, text }) => {
  const paths = [...text.matchAll(/(?:from|import)\s*\(?'(\.[^']+)\.tsx?'/g)].map((match) => match[1]!)
  return paths
    .map((path): Import => ({ from, to: normalize(join(dirname(from), path)) }))
    .filter(({ to }) => !to.startsWith('..'))
})

/** What a file imports for its values, and not later. */
function importedAtOnce(from: string, text: string): string[] {
  const found = text.matchAll(/^(?:import|export)(?! type\b)(?: [^;'"=]* from)? '(\.[^']+)\.tsx?'/gm)
  return [...found].map((match) => normalize(join(dirname(from), match[1]!)))
}

function wingOf(file: string): string {
  if (file === 'lockstep' || file === 'index') return file
  return file.includes('/') ? file.split('/')[0]! : 'vocabulary'
}

function roomOf(file: string): string {
  const [, room, more] = file.split('/')
  return more !== undefined || room === 'events' || room === 'middleware' ? room! : 'worker'
}

const floorIn = (floors: readonly (readonly string[])[], room: string) =>
  floors.findIndex((floor) => floor.includes(room))

/** Whether an import goes to a higher layer, or into another folder of the same layer. */
function isAgainst(floors: readonly (readonly string[])[], from: string, to: string): boolean {
  return from !== to && floorIn(floors, to) >= floorIn(floors, from)
}

const shown = ({ from, to }: Import) => `${from} > ${to}`

test('every file lies in a room that has a floor', () => {
  expect(files.filter((file) => floorIn(FLOORS, wingOf(file)) < 0)).toEqual([])
  const worker = files.filter((file) => wingOf(file) === 'worker')
  expect(worker.filter((file) => floorIn(ROOMS, roomOf(file)) < 0)).toEqual([])
})

test('imports go from faces down to the vocabulary, and never from one wing into another', () => {
  const against = imports.filter(({ from, to }) => isAgainst(FLOORS, wingOf(from), wingOf(to)))
  expect(against.map(shown)).toEqual([])
})

test('the worker’s rooms import downwards', () => {
  const inside = imports.filter(({ from, to }) => wingOf(from) === 'worker' && wingOf(to) === 'worker')
  expect(inside.length).toBeGreaterThan(100)
  const against = inside.filter(({ from, to }) => isAgainst(ROOMS, roomOf(from), roomOf(to)))
  expect(against.map(shown)).toEqual([])
})

test('a file is imported by its path, and only migrations lie outside', () => {
  const strange = loaded.filter(({ to }) =>
    to.startsWith('.') ? !/\.tsx?$/.test(to) : to.startsWith('pg-lockstep'),
  )
  expect(strange.map(shown)).toEqual([])
  const outside = loaded.filter(({ from, to }) => normalize(join(dirname(from), to)).startsWith('..'))
  expect(outside.filter(({ to }) => to.startsWith('.')).map(({ to }) => to)).toEqual(
    Array.from({ length: 2 }, () => '../../migrations/index.ts'),
  )
})

test('only the store, and what is below it, speaks to the server', () => {
  const speaks = loaded.filter(({ from, to }) => to in SERVER_PACKAGES && !SERVER_PACKAGES[to]!.test(from))
  expect(speaks.map(shown)).toEqual([])
  for (const name of Object.keys(SERVER_PACKAGES)) expect(loaded.map(({ to }) => to)).toContain(name)
})

test('packages that are optional are loaded only by what needs them, which nobody else imports', () => {
  const needs = loaded.filter(({ to }) => to in OPTIONAL_PACKAGES)
  expect(needs.filter(({ from, to }) => !OPTIONAL_PACKAGES[to]!.test(from)).map(shown)).toEqual([])
  for (const name of Object.keys(OPTIONAL_PACKAGES)) expect(needs.map(({ to }) => to)).toContain(name)
  const outside = imports.filter(({ from, to }) => wingOf(to) === 'telemetry' && wingOf(from) !== 'telemetry')
  expect(outside.map(shown)).toEqual([])
})

test('a producer loads neither the worker’s parts nor the consumer’s: they come when one starts', () => {
  const atOnce = new Map(sources.map(({ from, text }) => [from, importedAtOnce(from, text)]))
  const reached = new Set<string>()
  const visit = (file: string) => {
    if (reached.has(file)) return
    reached.add(file)
    for (const to of atOnce.get(file) ?? []) visit(to)
  }
  visit('index')
  expect([...reached]).toContain('consumer/consumer')
  const parts = [...reached].filter((file) =>
    /\/engine$|^worker\/(discovery|membership|performing|settling)\/|^store\/(claim|leases|settle)$/.test(
      file,
    ),
  )
  expect(parts).toEqual([])
})

test('faces call the public face; what goes past it is listed, with its reason', () => {
  const below = new Set(['enqueue', 'admin', 'worker', 'consumer', 'store', 'postgres', 'lockstep'])
  const past = imports.filter(({ from, to }) => FACES.has(wingOf(from)) && below.has(wingOf(to)))
  expect([...new Set(past.map(shown))].sort()).toEqual([...PAST_THE_FACE].sort())
})
