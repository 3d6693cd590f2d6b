import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { migrations } from '../../migrations/index.ts'
import { printable } from '../../src/cli/output.ts'
import { createProgram } from '../../src/cli/program.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { fixture, lockstep } from './command.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let database: TestDatabase
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  database = await createDatabase()
  env = { DATABASE_URL: database.connectionString }
})
afterAll(() => database.drop())

describe('a wrong command line', () => {
  it.each([
    ['an unknown command', ['enqeue'], /unknown command 'enqeue'\n\(Did you mean enqueue\?\)/],
    ['an unknown command of a group', ['morgue', 'lst'], /unknown command 'lst'\n\(Did you mean list\?\)/],
    [
      'help of an unknown command',
      ['enqeue', '--help'],
      /unknown command 'enqeue'\n\(Did you mean enqueue\?\)/,
    ],
    ['help of one that is like none', ['nonsense', '--help'], /unknown command 'nonsense'\n$/],
    ['an unknown command’s help', ['help', 'nonsense'], /unknown command 'nonsense'\n$/],
    [
      'help of an unknown command of a group',
      ['morgue', 'lst', '-h'],
      /unknown command 'lst'\n\(Did you mean list\?\)/,
    ],
    [
      'an unknown option',
      ['migrate', '--schma', 'x'],
      /unknown option '--schma'\n\(Did you mean --schema\?\)/,
    ],
    ['a bad number', ['work', '-r', 'x.ts', '--slots', 'many'], /--slots.*whole number/],
    ['no database', ['stats'], /no database: set DATABASE_URL, or give --database-url/],
    [
      'a database that is no URL',
      ['stats', '--database-url', 'host=db password=sesame'],
      /database URL must look like/,
    ],
    ['a bad schema', ['stats', '--database-url', 'postgres://x@y/z', '--schema', 'a"b'], /schema must be/],
    ['no choice of jobs', ['jobs', 'delete', 'orders'], /use --id, --tenant, a range, or --all/],
    [
      'a choice and all',
      ['morgue', 'delete', 'orders', '--all', '--id', 'x'],
      /--all and other filters exclude each other/,
    ],
  ])('%s ends with 2 and a message', async (_, args, message) => {
    const { code, stdout, stderr } = await runHere(args)
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^lockstep: /)
    expect(stderr).not.toMatch(/^\s+at /m)
    expect(stderr).not.toContain('sesame')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})

describe('the connection', () => {
  it('never shows a password, whatever fails', async () => {
    const url = new URL(database.connectionString)
    url.username = 'nobody_of_this_name'
    url.password = 'open%2Fsesame'
    const { code, stderr } = await runHere(['stats', '--database-url', url.href], { DEBUG: 'lockstep' })
    expect(code).toBe(1)
    expect(stderr).not.toMatch(/sesame/)
    const unread = await runHere(['stats', '--database-url', 'postgres://me:12/sesame@localhost/x'])
    expect(unread.code).toBe(2)
    expect(unread.stderr).toMatch(/percent-encoded/)
    expect(unread.stderr).not.toMatch(/sesame/)
  })

  it('names `lockstep migrate` where the schema is missing', async () => {
    const commands = [
      ['stats', '--schema', 'none'],
      ['work', '-r', fixture('ordered.ts'), '--schema', 'none'],
      ['enqueue', 'orders', '--ndjson', '--id', 'id', '--schema', 'none'],
    ]
    const ended = await Promise.all(commands.map((args) => lockstep(args, { env, input: '{"id":"a"}\n' })))
    for (const { code, stderr } of ended) {
      expect(stderr).toMatch(/lockstep migrate/)
      expect(code).toBe(1)
    }
  })
})

describe('help', () => {
  const names = createProgram().commands.map((command) => command.name())

  it.each(names)('of `%s` names its exit codes', async (name) => {
    let shown = ''
    const program = createProgram()
    const command = program.commands.find((one) => one.name() === name)!
    command.configureOutput({ writeOut: (text) => (shown += text) })
    await expect(program.parseAsync([name, '--help'], { from: 'user' })).rejects.toMatchObject({
      exitCode: 0,
    })
    expect(shown).toMatch(/Exit codes?:\s+0 /)
  })

  it('of `work` tells with what a process ends that kills itself', async () => {
    const { stdout } = await runHere(['work', '--help'])
    expect(stdout).toMatch(/^ {2}137 .*by itself/m)
  })

  it.each([
    [['morgue', '--help'], /^Usage: lockstep morgue /],
    [['morgue', 'list', '--help'], /^Usage: lockstep morgue list /],
    [['help', 'morgue'], /^Usage: lockstep morgue /],
    [['stats', 'more', '--help'], /^Usage: lockstep stats /],
  ])('of `%s` is given', async (args, usage) => {
    const { code, stdout } = await runHere(args)
    expect(stdout).toMatch(usage)
    expect(code).toBe(0)
  })

  it('lists the commands', async () => {
    const { code, stdout } = await lockstep(['--help'])
    expect(names).toContain('work')
    for (const name of names) expect(stdout).toContain(`\n  ${name} `)
    expect(code).toBe(0)
  })
})

describe('migrate', () => {
  it('migrates once, and says so', async () => {
    const args = ['migrate', '--schema', 'jobs', '--json']
    const first = await runHere(args, env)
    const second = await runHere(args, env)
    expect(JSON.parse(first.stdout)).toMatchObject({ schema: 'jobs', applied: Object.keys(migrations) })
    expect(JSON.parse(second.stdout)).toEqual({ schema: 'jobs', applied: [], defined: false, raised: [] })
  })

  it('--print writes what a worker accepts when it is applied by hand', async () => {
    const { stdout } = await runHere(['migrate', '--print', '--schema', 'by_hand'])
    const client = new pg.Client(database.connectionString)
    await client.connect()
    await client.query(stdout)
    await client.end()
    const worked = await lockstep(['work', '-r', fixture('several.ts'), '--drain', '--schema', 'by_hand'], {
      env,
    })
    expect(worked.code).toBe(0)
    const again = await runHere(['migrate', '--json', '--schema', 'by_hand'], env)
    expect(JSON.parse(again.stdout).applied).toEqual([])
  })
})

describe('what comes from jobs', () => {
  it('can not move the cursor, change colours or turn the reading direction', () => {
    expect(printable('a\u001b[31mb\u0007\n\u202ec\u0085é日')).toBe('a\\x1b[31mb\\x07\\n\\u202ec\\x85é日')
  })
})
