import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { storedPayloads } from '../support/stored-payloads.ts'
import { lockstep } from './command.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let database: TestDatabase
let env: NodeJS.ProcessEnv
let folder: string
let client: pg.Client

beforeAll(async () => {
  database = await createDatabase()
  env = { DATABASE_URL: database.connectionString }
  folder = await mkdtemp(join(tmpdir(), 'lockstep-cli-'))
  client = new pg.Client(database.connectionString)
  await client.connect()
  expect(await runHere(['migrate'], env)).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await client.end()
  await database.drop()
  await rm(folder, { recursive: true })
})

async function file(name: string, text: string | Buffer): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}

async function stored(queue: string): Promise<{ id: string; payload: unknown; score: number }[]> {
  const { rows } = await client.query(
    `SELECT job_id AS id, payload, score FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id)
     WHERE name = $1 ORDER BY job_id, score`,
    [queue],
  )
  return rows
}

const CSV =
  '\ufefforder,version,at,note\r\n' +
  'a,1,2026-01-01 10:00:00.000002+01:00,"two\r\nlines, ""quoted"""\r\n' +
  'b,1,2026-01-01T09:00:00Z,\r\n' +
  '\r\n' +
  'a,2,2026-01-01 10:00:00.000001+01:00,x\r\n'

describe('enqueue', () => {
  it.each([
    ['CSV', ['--csv'], 'order,trace\na,"{""id"": ""t""}"\nb,\n'],
    ['NDJSON', ['--ndjson'], '{"order": "a", "trace": {"id": "t"}}\n{"order": "b"}\n'],
  ])('stores the headers of a column, where there are any: %s', async (name, format, text) => {
    const path = await file(`headers.${name}`, text)
    const queue = `headers in ${name}`
    const args = ['enqueue', queue, ...format, path, '--id', 'order', '--headers', 'trace']
    expect(await runHere(args, env)).toMatchObject({ code: 0 })
    const { rows } = await client.query(
      `SELECT job_id AS id, headers FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id)
       WHERE name = $1 ORDER BY job_id`,
      [queue],
    )
    expect(rows).toEqual([
      { id: 'a', headers: { id: 't' } },
      { id: 'b', headers: null },
    ])
  })

  it('refuses headers that are no object, by line and column', async () => {
    const path = await file('bad-headers.csv', 'order,trace\na,"{""id"": 1}"\nb,t\n')
    const args = ['enqueue', 'bad headers', path, '--id', 'order', '--headers', 'trace']
    const { code, stderr } = await runHere(args, env)
    expect(code).toBe(1)
    expect(stderr).toContain('line 3, column "trace": headers must be a plain object, not a string')
    expect(await stored('bad headers')).toEqual([])
  })

  it('pushes the rows of a CSV, microseconds of its scores included', async () => {
    const path = await file('orders.csv', CSV)
    const { code, stdout, stderr } = await runHere(
      ['enqueue', 'csv', '--csv', path, '--id', 'order', '--score', 'at'],
      env,
    )
    expect(stdout).toMatch(/^3 rows pushed into "csv" in /)
    expect(stderr).toMatch(/queue "csv" is new: created with 16 shards/)
    expect(code).toBe(0)
    const base = Date.UTC(2026, 0, 1, 9)
    const rows = await stored('csv')
    expect(rows.map(({ payload }) => payload)).toEqual([
      { order: 'a', version: '2', at: '2026-01-01 10:00:00.000001+01:00', note: 'x' },
      { order: 'a', version: '1', at: '2026-01-01 10:00:00.000002+01:00', note: 'two\r\nlines, "quoted"' },
      { order: 'b', version: '1', at: '2026-01-01T09:00:00Z', note: '' },
    ])
    for (const [index, micros] of [1, 2, 0].entries()) {
      expect(rows[index]!.score - base).toBeCloseTo(micros / 1000, 3)
    }
  })

  it('pushes NDJSON from stdin, with its columns for payload, lane and time', async () => {
    const input = `{"id":7,"n":3,"lane":2,"due":"2030-01-01T00:00:00Z","body":{"x":[1]}}\n\n{"id":"b","n":-1.5,"body":"text"}`
    const columns = [
      '--id',
      'id',
      '--score',
      'n',
      '--lane',
      'lane',
      '--perform-in',
      'due',
      '--payload',
      'body',
    ]
    const args = ['enqueue', 'ndjson', '-', '--ndjson', ...columns, '--shards', '3', '--json']
    const { code, stdout, stderr } = await lockstep(args, { env, input })
    expect(JSON.parse(stdout)).toMatchObject({ rows: 2, stored: 2 })
    expect(stderr).toMatch(/created with 3 shards/)
    expect(code).toBe(0)
    expect(await stored('ndjson')).toEqual([
      { id: '7', payload: { x: [1] }, score: 3 },
      { id: 'b', payload: 'text', score: -1.5 },
    ])
    const { rows } = await client.query("SELECT lane, perform_in FROM lockstep.waiting WHERE id = '7'")
    expect(rows).toEqual([{ lane: 2, perform_in: new Date('2030-01-01T00:00:00Z') }])
  })

  it('R17 takes the expiry from a column; an empty field means never, and what is no time is refused', async () => {
    const path = await file('expiring.csv', 'order,until\na,2500-01-01T00:00:00Z\nb,\n')
    const columns = ['--id', 'order', '--expires-in', 'until']
    expect(await runHere(['enqueue', 'expiring', path, ...columns], env)).toMatchObject({ code: 0 })
    const { rows } = await client.query(
      `SELECT id, payloads -> 0 -> 'expiresIn' AS until FROM lockstep.waiting WHERE queue = 'expiring' ORDER BY id`,
    )
    expect(rows).toEqual([
      { id: 'a', until: Date.parse('2500-01-01') },
      { id: 'b', until: null },
    ])
    const found = await runHere(['jobs', 'find', 'expiring', '--by', 'id'], env)
    expect(found.stdout).toMatch(/expires[\s\S]*2500-01-01T00:00:00.000Z/)
    const bad = await lockstep(['enqueue', 'expiring', '-', '--ndjson', ...columns], {
      env,
      input: '{"order":"c","until":"soon"}',
    })
    expect(bad.stderr).toMatch(/line 1, column "until": "soon" is neither/)
  })

  it('takes the tenant from a column; an empty field means none, and what is no text is refused', async () => {
    const path = await file('tenants.csv', 'order,customer\na,acme\nb,\n')
    const columns = ['--id', 'order', '--tenant', 'customer']
    expect(await runHere(['enqueue', 'tenants', path, ...columns], env)).toMatchObject({ code: 0 })
    const input = '{"order":"c","customer":7}\n{"order":"d","customer":null}\n{"order":"e"}'
    const ndjson = ['enqueue', 'tenants', '-', '--ndjson', ...columns]
    expect(await lockstep(ndjson, { env, input })).toMatchObject({ code: 0 })
    const { rows } = await client.query(
      "SELECT id, tenant FROM lockstep.waiting WHERE queue = 'tenants' ORDER BY id",
    )
    expect(rows.map(({ id, tenant }) => [id, tenant])).toEqual([
      ['a', 'acme'],
      ['b', null],
      ['c', '7'],
      ['d', null],
      ['e', null],
    ])
    const bad = await lockstep(ndjson, { env, input: '{"order":"f","customer":{"name":"acme"}}' })
    expect(bad.stderr).toMatch(/line 1, column "customer": tenant must be text, not an object/)
    const long = await file('long.csv', `order,customer\ng,${'x'.repeat(1_025)}\n`)
    const { code, stderr } = await runHere(['enqueue', 'tenants', long, ...columns], env)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/line 2, column "customer": tenant must be at most 1,024/),
    ])
  })

  it('stores chunk by chunk, names line, column and value of a bad row, and goes on with --skip', async () => {
    const lines = Array.from(
      { length: 2_500 },
      (_, index) => `order-${index},${index === 2_200 ? 'soon' : index}`,
    )
    const path = await file('bad.csv', `order,at\n${lines.join('\n')}\n`)
    const args = ['enqueue', 'bad', path, '--id', 'order', '--score', 'at']
    const { code, stderr, stdout } = await runHere(args, env)
    expect(stderr).toMatch(/line 2202, column "at": "soon" is neither a number/)
    expect(stderr).toMatch(/Stored: 2,000 rows\. Continue with --skip 2000/)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(await stored('bad')).toHaveLength(2_000)

    await file('bad.csv', `order,at\n${lines.join('\n').replace('soon', '2200')}\n`)
    expect(await runHere([...args, '--skip', '2000'], env)).toMatchObject({ code: 0 })
    expect(await stored('bad')).toHaveLength(2_500)
  })

  it('counts lines right behind quoted line breaks of both kinds', async () => {
    const path = await file(
      'lines.csv',
      'id,n,text\r\na,1,"x\r\n\r\ny"\r\nb,1,"x\ny"\r\n\r\nc,bad,"q\r\nr"\r\n',
    )
    const { stderr } = await runHere(['enqueue', 'lines', path, '--id', 'id', '--score', 'n', '--dry-run'])
    expect(stderr).toMatch(/line 8, column "n": "bad"/)
  })

  it.each([
    ['an empty id', 'order,at\na,1\n,2\n', /line 3, column "order": id is required/],
    ['an empty score', 'order,at\na,\n', /line 2, column "at": "" is neither/],
    ['a column that comes twice', 'order,at,at\na,1,2\n', /names "at" twice/],
    ['a row that is too short', 'order,at\na\n', /line 2/],
    ['a quote that is never closed', 'order,at\n"a,1\n', /Quote Not Closed/],
    ['text that is not UTF-8', Buffer.from('order,at\n\xe9,1\n', 'latin1'), /not UTF-8/],
  ])('refuses %s, and stores nothing', async (name, text, message) => {
    const path = await file(`${name.replaceAll(' ', '-')}.csv`, text)
    const { code, stderr } = await runHere(
      ['enqueue', 'refused', path, '--id', 'order', '--score', 'at'],
      env,
    )
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/Nothing was stored/)
    expect(stderr).not.toMatch(/^\s+at /m)
    expect(code).toBe(1)
    expect(await stored('refused')).toEqual([])
  })

  it.each([
    ['a line that is no JSON', '{"id":"a"}\n{"id":\n', /line 2 is not JSON/],
    ['a line that is no object', '[1]\n', /line 1 is not a JSON object/],
    ['a row without the column', '{"di":"a"}\n', /line 1 has no column "id"; did you mean "di"\?/],
  ])('refuses NDJSON with %s', async (_, input, message) => {
    const { code, stderr } = await lockstep(['enqueue', 'refused', '--ndjson', '--id', 'id'], { env, input })
    expect(stderr).toMatch(message)
    expect(code).toBe(1)
  })

  it('checks without storing, and without a database, in a dry run', async () => {
    const input = 'id\na\nb\n'
    const { code, stdout } = await lockstep(['enqueue', 'dry', '--csv', '--id', 'id', '--dry-run'], { input })
    expect(stdout).toMatch(/^2 rows checked in .*: all valid, nothing was stored\n$/)
    expect(code).toBe(0)
  })

  it('shuffles', async () => {
    const numbers = Array.from({ length: 200 }, (_, index) => String(index))
    const input = ['id,n,score', ...numbers.map((n) => `one,${n},0`)].join('\n')
    const args = [
      'enqueue',
      'mixed',
      '--csv',
      '--id',
      'id',
      '--score',
      'score',
      '--payload',
      'n',
      '--shuffle',
    ]
    expect(await lockstep(args, { env, input })).toMatchObject({ code: 0 })
    const { rows } = await client.query(
      `SELECT payload FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id) WHERE name = 'mixed' ORDER BY seq`,
    )
    const pushed = rows.map(({ payload }) => payload)
    expect(pushed).not.toEqual(numbers)
    expect(pushed.toSorted()).toEqual(numbers.toSorted())
  })

  it.each([
    ['two files', ['a.csv', '--csv', 'b.csv'], /name one file/],
    ['two formats', ['--csv', '--ndjson'], /exclude each other/],
    ['no format', [], /say which format stdin has: --csv or --ndjson/],
    ['no file', ['none.csv'], /there is no file "none.csv"/],
    ['a delimiter of two characters', ['--delimiter', '::'], /one character/],
  ])('takes %s for wrong usage', async (_, args, message) => {
    const program = createProgram()
    for (const command of program.commands) command.configureOutput({ writeErr() {} })
    const running = program.parseAsync(['enqueue', 'orders', '--id', 'x', '--dry-run', ...args], {
      from: 'user',
    })
    await expect(running).rejects.toThrow(message)
  })
})
