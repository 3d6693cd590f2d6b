import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { SingleBar } from 'cli-progress'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { storedPayloads } from '../support/stored-payloads.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { Command, lockstep } from './command.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 120_000 })

const workers = useWorkers()
let env: NodeJS.ProcessEnv
let folder: string

beforeAll(async () => {
  env = { DATABASE_URL: workers.connectionString }
  folder = await mkdtemp(join(tmpdir(), 'lockstep-cli-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function file(name: string, text: string | Buffer): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}

/** `id,n` and `count` rows, each with its own id and number. */
function rows(count: number): string[] {
  return ['id,n', ...Array.from({ length: count }, (_, index) => `id-${index},${index}`)]
}

const enqueue = (...args: string[]) => runHere(['enqueue', ...args, '--id', 'id'], env)

/** The payloads of a queue, in push order. */
async function stored(queue: string): Promise<string[]> {
  const found = await workers.sql<{ n: string }>(
    `SELECT payload->>'n' AS n FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id)
     WHERE name = $1 ORDER BY seq`,
    [queue],
  )
  return found.map(({ n }) => n)
}

async function expectEachOnce(queue: string, count: number): Promise<void> {
  const numbers = (await stored(queue)).map(Number).toSorted((a, b) => a - b)
  expect(numbers).toEqual(Array.from({ length: count }, (_, index) => index))
}

describe('--shuffle', () => {
  test('checks every row before it stores one, so that the same command goes on after a bad one', async () => {
    const lines = rows(2_100)
    const path = await file('bad.csv', lines.with(1_951, 'id-1950,soon').join('\n'))
    const args = ['bad', path, '--score', 'n', '--shuffle']
    const refused = await enqueue(...args)
    expect(refused.stderr).toMatch(/line 1952, column "n": "soon" is neither .*\nNothing was stored\.\n$/s)
    expect(refused.code).toBe(1)
    await file('bad.csv', lines.join('\n'))
    expect(await enqueue(...args)).toMatchObject({ code: 0 })
    await expectEachOnce('bad', 2_100)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)(
    'tells the seed with which one that a %s ended goes on: everything is stored exactly once',
    async (signal, exitCode) => {
      const name = `ended by ${signal}`
      const path = await file('interrupted.csv', rows(2_100).join('\n'))
      const args = ['enqueue', name, path, '--id', 'id', '--shuffle']
      const blocker = await workers.session()
      await blocker.query('BEGIN; LOCK TABLE lockstep.jobs IN SHARE MODE')
      const command = new Command(args, { env })
      const waits = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'lockstep.jobs'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
      await eventually(async () => expect(await workers.sql(waits)).toHaveLength(1), 60_000)
      command.child.kill(signal)
      await blocker.query('ROLLBACK')
      const { code, stderr } = await command.ended
      const [, done, advice] = /Stored: (1|2),000 rows\. Continue with (--seed \d+-2100 --skip \d+);/.exec(
        stderr,
      )!
      expect(code).toBe(exitCode)

      const { stdout } = await enqueue(name, path, ...advice!.split(' '), '--json')
      expect(JSON.parse(stdout)).toMatchObject({ stored: 2_100 - Number(done) * 1_000, merged: 0 })
      await expectEachOnce(name, 2_100)
    },
  )

  test('goes on with --skip in no other order', async () => {
    const path = await file('fewer.csv', rows(2_099).join('\n'))
    const without = await enqueue('fewer', path, '--shuffle', '--skip', '1000')
    expect(without.stderr).toMatch(/--skip after --shuffle needs the --seed that the error named/)
    const other = await enqueue('fewer', path, '--seed', '17-2100', '--skip', '1000')
    expect(other.stderr).toMatch(/--seed 17-2100 is for 2,100 rows, but there are 2,099, /)
    expect([without.code, other.code]).toEqual([2, 2])
    expect(await stored('fewer')).toEqual([])
  })

  test('has the order of its seed', async () => {
    const path = await file(
      'seeded.csv',
      rows(50)
        .join('\n')
        .replace(/id-\d+/g, 'one'),
    )
    const orders = new Map<string, string[]>()
    for (const [queue, seed] of Object.entries({ first: '17', second: '17-50', third: '18' })) {
      await enqueue(queue, path, '--score', 'n', '--seed', seed)
      orders.set(queue, await stored(queue))
    }
    expect(orders.get('second')).toEqual(orders.get('first'))
    expect(orders.get('third')).not.toEqual(orders.get('first'))
    await expectEachOnce('third', 50)
  })
})

test('a dry run says how far the rows are good, and that nothing was stored', async () => {
  const path = await file('dry.csv', rows(1_200).with(1_101, ',1100').join('\n'))
  const { code, stderr } = await runHere(['enqueue', 'dry', path, '--id', 'id', '--dry-run'])
  expect(stderr).toMatch(
    /line 1102, .*\nChecked and valid: 1,000 rows\. Nothing was stored: this was a dry run\.\n$/s,
  )
  expect(code).toBe(1)
})

describe('the bar counts what is stored', () => {
  const { isTTY } = process.stderr
  beforeEach(() => {
    process.stderr.isTTY = true
  })
  afterEach(() => {
    process.stderr.isTTY = isTTY
    vi.restoreAllMocks()
  })

  test.each([
    ['a small file', 'bar.csv', []],
    ['a shuffled one', 'bar.csv', ['--shuffle']],
    ['a packed one', 'bar.csv.gz', []],
  ])('of %s', async (name, path, args) => {
    const text = rows(2_500).join('\n')
    const packed = path.endsWith('gz') ? gzipSync(text) : Buffer.from(text)
    const start = vi.spyOn(SingleBar.prototype, 'start').mockImplementation(() => {})
    const update = vi.spyOn(SingleBar.prototype, 'update').mockImplementation(() => {})
    expect(await enqueue(`bar of ${name}`, await file(path, packed), ...args)).toMatchObject({ code: 0 })
    expect(start.mock.calls).toEqual([[packed.length, 0]])
    const shares = update.mock.calls.map(([part]) => Number(part) / packed.length)
    expect(shares).toEqual([expect.closeTo(0.4, 1), expect.closeTo(0.8, 1), 1, 1])
  })
})

describe('gzip', () => {
  const text = rows(300).join('\n')

  test('is unpacked, from a file and from stdin, whatever it is called', async () => {
    const named = await enqueue('packed', await file('rows.csv.gz', gzipSync(text)))
    const unnamed = await enqueue('unnamed', '--csv', await file('rows.csv', gzipSync(text)))
    expect([named.code, unnamed.code]).toEqual([0, 0])
    const args = ['enqueue', 'piped', '-', '--csv', '--id', 'id']
    expect(await lockstep(args, { env, input: gzipSync(text) })).toMatchObject({ code: 0 })
    for (const queue of ['packed', 'unnamed', 'piped']) await expectEachOnce(queue, 300)
  })

  test('that is cut off is told, with what is stored', async () => {
    const whole = gzipSync(rows(5_000).join('\n'))
    const path = await file('cut.csv.gz', whole.subarray(0, whole.length - 5_000))
    const { code, stderr } = await enqueue('cut', path)
    expect(stderr).toMatch(
      /cut\.csv\.gz can't be unpacked because it is damaged or cut off: unexpected end of file\nStored: \d,000 rows/,
    )
    expect(code).toBe(1)
  })
})

describe('a column that the file does not have is wrong usage', () => {
  test.each([
    ['among others', 'ordr,at\na,1\n', /has no column "id"; .*there are: ordr, at/],
    ['where there are no rows', 'order,at\n', /has no column "id"; .*there are: order, at/],
    [
      'where there is another delimiter',
      'id;at\na;1\n',
      /has no column "id", but it has one with --delimiter ';'/,
    ],
    ['where there are tabs', 'id\tat\na\t1\n', /has no column "id", but it has one with --delimiter '\\t'/],
    [
      'and another delimiter',
      'ids;at\na;1\n',
      /has no column "id"; with --delimiter ';', did you mean "ids"\? there are: ids, at/,
    ],
    ['and only empty lines', '\n\n', /has no header, only empty lines/],
  ])('%s', async (name, text, message) => {
    const { code, stderr } = await enqueue('refused', await file(`${name}.csv`, text))
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/\nNothing was stored\.\n$/)
    expect(code).toBe(2)
  })

  test('and quotes around another delimiter get the hint, too', async () => {
    const { code, stderr } = await enqueue('refused', await file('quoted.csv', '"id";"at"\n"a";"1"\n'))
    expect(stderr).toMatch(/; if that separates the fields, give --delimiter ';'\n/)
    expect(code).toBe(1)
  })
})

test.each([
  ['an empty file', '', []],
  ['an empty one that was packed', gzipSync(''), []],
  ['a header alone', 'id,n\n', []],
  ['rows that are all left out', 'id,n\na,1\n', ['--skip', '1']],
])('%s: there are no rows, and that is told', async (name, text, args) => {
  const path = await file(`${name}.csv`, text)
  const { code, stdout } = await enqueue('nothing', path, ...args)
  expect(stdout).toMatch(/ has no rows( after the first 1)?: nothing was stored\n$/)
  expect(code).toBe(0)
})

describe('R2: merged rows are told', () => {
  const doubled = 'id,n\na,1\nb,2\na,1\n'

  test('those of the file and those that met one that waits', async () => {
    const path = await file('doubled.csv', doubled)
    const first = await enqueue('doubled', path)
    expect(first.stdout).toMatch(/^3 rows pushed into "doubled", 1 of them merged, in /)
    const again = await enqueue('doubled', path, '--json')
    expect(JSON.parse(again.stdout)).toMatchObject({ rows: 3, stored: 3, merged: 3 })
    // A single job reaches the server in another way.
    const one = await file('one.csv', 'id,n\nb,2\n')
    expect(JSON.parse((await enqueue('doubled', one, '--json')).stdout)).toMatchObject({ merged: 1 })
    const fresh = await file('fresh.csv', 'id,n\na,2\nc,1\n')
    expect((await enqueue('doubled', fresh)).stdout).toMatch(/^2 rows pushed into "doubled" in /)
  })

  test('unless the server does not count', async () => {
    const [{ name }] = (await workers.sql<{ name: string }>('SELECT current_database() AS name')) as [
      { name: string },
    ]
    await workers.sql(`ALTER DATABASE ${name} SET track_counts = off`)
    workers.later(() => workers.sql(`ALTER DATABASE ${name} RESET track_counts`))
    const { stdout } = await enqueue('uncounted', await file('doubled.csv', doubled), '--json')
    expect(JSON.parse(stdout)).toMatchObject({ rows: 3, stored: 3, merged: null })
  })
})
