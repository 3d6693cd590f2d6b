import { inspect } from 'node:util'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { defineQueue, Lockstep, type Logger } from '../../src/index.ts'
import { Command, fixture } from '../cli/command.ts'
import { runHere } from '../cli/in-process.ts'
import { eventually, next } from '../support/worker-environment.ts'
import { Logins } from './logins.ts'
import { ROWS } from './rows.ts'

/** Every piece of the password contains this, however it is cut, encoded or quoted. */
const TOKEN = 'sesame'
const PASSWORD = `${TOKEN}/${TOKEN}@${TOKEN}:${TOKEN}#${TOKEN}?${TOKEN}%20${TOKEN} "${TOKEN}'\\é${TOKEN}`
const QUEUE = defineQueue('orders', { shards: 2, perform() {} })

let logins: Logins
const undo: (() => unknown)[] = []

beforeAll(async () => {
  logins = await Logins.open()
  await logins.create('keeper', 'SUPERUSER', PASSWORD)
  await new Lockstep({ connectionString: logins.url('keeper') }).migrate()
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
afterAll(() => logins.close())

/** Everything that someone looking at a value, or writing it to a log, might get. */
function written(value: unknown): string {
  const looks = [
    String(value),
    inspect(value, { depth: 20, showHidden: true, getters: true, maxStringLength: null }),
    JSON.stringify(value, replacer()),
  ]
  if (value instanceof Error) looks.push(value.stack!, written(value.cause ?? ''))
  return looks.join('\n')
}

/** Makes JSON include what it normally omits from errors, and omit circular references. */
function replacer() {
  const seen = new Set<unknown>()
  return (_: string, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value
    if (seen.has(value)) return undefined
    seen.add(value)
    return value instanceof Error
      ? Object.fromEntries(Object.getOwnPropertyNames(value).map((key) => [key, Reflect.get(value, key)]))
      : value
  }
}

/** `url` with a change. */
function changed(change: (url: URL) => void): string {
  const url = new URL(logins.url('keeper'))
  change(url)
  return url.href
}

/** Connection strings that reach no database, each with the password in it. */
const WRONG: Readonly<Record<string, () => string>> = {
  'a wrong password': () => changed((url) => (url.password = encodeURIComponent(`${PASSWORD}!`))),
  'an unknown user': () => changed((url) => (url.username = 'nobody_of_this_name')),
  'a port where nobody answers': () => changed((url) => (url.port = '1')),
  'a host that is unknown': () => changed((url) => (url.hostname = 'no.such.host.invalid')),
  'a database that is missing': () => changed((url) => (url.pathname = '/none')),
  'a password in the query': () =>
    changed((url) => {
      url.search = `?password=${encodeURIComponent(`${PASSWORD}!`)}`
      url.password = ''
    }),
  'a password that is not encoded': () => `postgres://keeper:${PASSWORD}@127.0.0.1:1/none`,
  'a percent sign that encodes nothing': () => `postgres://keeper:%${TOKEN}%zz@127.0.0.1:1/none`,
}

describe('a password is not shown by', () => {
  test('the objects of the library, before and while they work', async () => {
    const connectionString = logins.url('keeper')
    const pool = new pg.Pool({ connectionString })
    undo.push(() => pool.end())
    for (const options of [{ connectionString, directUrl: connectionString }, { pool }]) {
      const lockstep = new Lockstep(options)
      undo.push(() => lockstep.close())
      const worker = lockstep.createWorker({ queues: [QUEUE] })
      const look = () => expect(written(lockstep) + written(worker) + written(QUEUE)).not.toContain(TOKEN)
      look()
      await worker.start()
      undo.push(() => worker.stop())
      const done = next(worker, 'completed')
      await lockstep.enqueue(QUEUE, { id: 'a' })
      await done
      look()
      expect(written(await lockstep.processes())).not.toContain(TOKEN)
    }
  })

  test.each(Object.keys(WRONG))('errors and logs of the library: %s', async (wrong) => {
    const logged: unknown[] = []
    const log = (fields: object, message: string) => void logged.push(fields, message)
    const logger: Logger = { debug: log, info: log, warn: log, error: log }
    const lockstep = new Lockstep({ connectionString: WRONG[wrong]!(), logger })
    undo.push(() => lockstep.close())
    const calls = [
      () => lockstep.migrate(),
      () => lockstep.enqueue(QUEUE, { id: 'a' }),
      () => lockstep.stats(),
      () => lockstep.find(QUEUE),
      () => lockstep.delete(QUEUE, {}),
      () => lockstep.createWorker({ queues: [QUEUE] }).start(),
      () =>
        new Lockstep({ connectionString: logins.url('keeper'), directUrl: WRONG[wrong]!(), logger })
          .createWorker({ queues: [QUEUE] })
          .start(),
    ]
    for (const call of calls) {
      const error = await Promise.resolve(call()).then(
        () => undefined,
        (thrown) => thrown,
      )
      expect(error).toBeInstanceOf(Error)
      expect(written(error)).not.toContain(TOKEN)
    }
    expect(written(logged)).not.toContain(TOKEN)
  })

  test('options that are wrong', () => {
    const url = WRONG['a password that is not encoded']!()
    const wrong = [
      { connectionString: url, directURL: url },
      { connectionString: url, pool: new pg.Pool({ connectionString: url }) },
      { connectionString: url, schema: `"${'x'.repeat(60)}` },
      { connectionString: url, logger: undefined, middlewares: [] },
    ]
    for (const options of wrong) {
      let thrown: unknown
      try {
        new Lockstep(options as never)
      } catch (error) {
        thrown = error
      }
      expect(written(thrown)).toMatch(/OptionError/)
      expect(written(thrown)).not.toContain(TOKEN)
    }
  })

  test('a worker whose connections break, in its events, log and sessions', async () => {
    const told: unknown[] = []
    const log = (fields: object, message: string) => void told.push(fields, message)
    const lockstep = new Lockstep({
      connectionString: logins.url('keeper'),
      logger: { debug: log, info: log, warn: log, error: log },
    })
    undo.push(() => lockstep.close())
    const worker = lockstep.createWorker({ queues: [QUEUE], lease: 1_000, poll: 50 })
    worker.on('failure', (error) => told.push(error))
    await worker.start()
    undo.push(() => worker.stop())
    const role = logins.role('keeper')
    for (let round = 0; round < 3; round += 1) {
      const before = told.length
      const sessions = await logins.asAdmin(
        `SELECT *, pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`,
        [role],
      )
      expect(sessions.length).toBeGreaterThan(2)
      expect(written(sessions)).not.toContain(TOKEN)
      await eventually(() => expect(told.length).toBeGreaterThan(before))
      await eventually(async () => {
        const done = next(worker, 'completed', () => true, 1_000)
        done.catch(() => {})
        await lockstep.enqueue(QUEUE, { id: 'a' })
        await done
      })
    }
    expect(written(told)).toMatch(/terminat|connection/)
    for (const one of told) expect(written(one)).not.toContain(TOKEN)
  })
})

describe('a password is not printed by', () => {
  const commands: readonly string[][] = [
    ['migrate'],
    ['stats'],
    ['top', '--once'],
    ['processes'],
    ['tenants', 'orders'],
    ['processes', 'stop', '1'],
    ['jobs', 'find', 'orders'],
    ['jobs', 'delete', 'orders', '--all'],
    ['morgue', 'list', 'orders'],
    ['morgue', 'requeue', 'orders', '--all'],
    ['pause', 'orders'],
    ['resume', 'orders', '--json'],
    ['reshard', 'orders', '3'],
    ['delete-queue', 'orders'],
    ['audit'],
    ['token', 'create', 'shop', '--scope', 'produce'],
    ['token', 'list'],
    ['token', 'delete', 'shop'],
    ['web', '--port', '0'],
    ['serve', '--port', '0', '--admin-port', '0'],
    ['enqueue', 'orders', ROWS, '--id', 'id'],
  ]

  test('commands: all that take a database are here', () => {
    const program = createProgram()
    const named = new Set(commands.map(([name]) => name))
    const taking = program.commands
      .flatMap((command) => (command.commands.length > 0 ? command.commands : [command]))
      .filter((command) => command.options.some(({ long }) => long === '--database-url'))
      .map((command) => (command.parent === program ? command.name() : command.parent!.name()))
    expect([...named, 'work'].toSorted()).toEqual([...new Set(taking)].toSorted())
  })

  test.each(Object.keys(WRONG))('commands: %s', async (wrong) => {
    const url = WRONG[wrong]!()
    for (const [index, args] of commands.entries()) {
      // By turns in the environment and on the command line, with and without the stack.
      const given = index % 2 ? { DATABASE_URL: url } : {}
      const { code, stdout, stderr } = await runHere(index % 2 ? args : [...args, '--database-url', url], {
        ...given,
        ...(index % 3 ? { DEBUG: 'lockstep' } : {}),
      })
      expect(code, args.join(' ')).not.toBe(0)
      expect(stderr).toMatch(/^lockstep: /)
      expect(stdout + stderr).not.toContain(TOKEN)
    }
  })

  test('commands with the password in PGPASSWORD', async () => {
    const DATABASE_URL = changed((url) => (url.password = ''))
    const wrong = await runHere(['stats'], { DATABASE_URL, PGPASSWORD: `${PASSWORD}!`, DEBUG: 'lockstep' })
    expect(wrong.code).toBe(1)
    const right = await runHere(['stats', '--json'], { DATABASE_URL, PGPASSWORD: PASSWORD })
    expect(right.code).toBe(0)
    for (const { stdout, stderr } of [wrong, right]) expect(stdout + stderr).not.toContain(TOKEN)
  })

  test.each([
    ['a misspelt option', (url: string) => ['stats', `--database-ulr=${url}`]],
    ['a forgotten option', (url: string) => ['stats', url]],
    ['a URL for a command', (url: string) => [url]],
    ['a URL for a queue', (url: string) => ['pause', url]],
    ['a URL for a schema', (url: string) => ['stats', '--schema', url]],
    ['a URL for a number', (url: string) => ['reshard', 'orders', url]],
    ['a URL for a file', (url: string) => ['enqueue', 'orders', url, '--ndjson', '--id', 'id']],
    ['words instead of a URL', () => ['stats', '--database-url', `host=db password=${TOKEN} user=x`]],
    ['words for a command', () => [`host=db password=${TOKEN}`]],
  ])('a wrong command line: %s', async (_, argsOf) => {
    for (const url of [logins.url('keeper'), `postgresql://me:${TOKEN}@${TOKEN}@db/x`]) {
      const { code, stdout, stderr } = await runHere(argsOf(url), { DEBUG: 'lockstep' })
      expect(code).not.toBe(0)
      expect(stdout + stderr).not.toContain(TOKEN)
    }
  })

  test('`lockstep work`, whose connections break, which is asked what it does, and whose jobs fail', async () => {
    const lockstep = new Lockstep({ connectionString: logins.url('keeper') })
    undo.push(() => lockstep.close())
    for (const name of ['patient', 'failing']) await lockstep.enqueue(defineQueue(name), { id: 'a' })
    const env = {
      DATABASE_URL: changed((url) => (url.password = '')),
      DATABASE_DIRECT_URL: logins.url('keeper'),
      PGPASSWORD: PASSWORD,
      LOCKSTEP_LOG_LEVEL: 'trace',
      DEBUG: '*',
    }
    const files = ['-r', fixture('failing.ts'), '-r', fixture('waiting.ts'), '--queues', 'failing,patient']
    const work = new Command(['work', ...files, '--shutdown-timeout', '0'], { env })
    undo.push(() => work.child.kill('SIGKILL'))
    await Promise.all(['performing', 'died'].map((event) => work.line((line) => line.event === event)))
    work.child.kill('SIGTTIN')
    await work.line(({ event }) => event === 'slot')
    const processes = await logins.asAdmin('SELECT * FROM lockstep.process_list')
    expect(processes).toHaveLength(1)
    const sessions = await logins.asAdmin(
      `SELECT *, pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`,
      [logins.role('keeper')],
    )
    await work.line(({ msg }) => msg.includes('connection broke'))
    work.child.kill('SIGTERM')
    const { stdout, stderr } = await work.ended
    expect(stderr).toContain('pg-listen')
    for (const text of [stdout, stderr, written(processes), written(sessions)])
      expect(text).not.toContain(TOKEN)
  })

  test('`lockstep work` that can’t start', async () => {
    const work = ['work', '-r', fixture('failing.ts'), '--json']
    const env = { DEBUG: '*', LOCKSTEP_LOG_LEVEL: 'trace' }
    const refused = new Command(work, { env: { ...env, DATABASE_URL: WRONG['a wrong password']!() } }).ended
    const unread = runHere(work, { ...env, DATABASE_URL: WRONG['a password that is not encoded']!() })
    const ended = await Promise.all([refused, unread])
    expect(ended.map(({ code }) => code)).toEqual([1, 2])
    for (const { stdout, stderr } of ended) expect(stdout + stderr).not.toContain(TOKEN)
  })
})
