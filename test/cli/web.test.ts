import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'
import { basic, Site } from '../web/site.ts'
import { builtMain, Command } from './command.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 60_000 })

let env: StoreEnvironment
let queue: TestQueue
let variables: NodeJS.ProcessEnv
const commands: Command[] = []

beforeAll(async () => {
  env = await openStore()
  queue = await env.queue()
  variables = { DATABASE_URL: env.connectionString }
})
afterAll(() => env.close())
afterEach(async () => {
  for (const { child, ended } of commands.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
})

interface Started {
  readonly command: Command
  readonly url: URL
  readonly site: Site
}

async function start(args: readonly string[] = [], more: NodeJS.ProcessEnv = {}): Promise<Started> {
  const command = new Command(['web', '--json', '--port', '0', ...args], { env: { ...variables, ...more } })
  commands.push(command)
  const line = await command.line((one) => 'url' in one)
  const url = new URL(line.url as string)
  return { command, url, site: new Site(url.origin) }
}

/** The headers of a browser that has followed the link. */
async function logIn({ site, url }: Started): Promise<Record<string, string>> {
  const answer = await site.ask(`${url.pathname}${url.search}`)
  expect([answer.status, answer.headers.get('refresh')]).toEqual([200, `0; url=${url.pathname}`])
  return { cookie: answer.headers.getSetCookie()[0]!.split(';')[0]! }
}

describe('on this machine', () => {
  it('the link works once, for one browser, and nothing works without it', async () => {
    const started = await start()
    const { site, url } = started
    expect(url.hostname).toBe('127.0.0.1')
    expect((await site.ask('/')).status).toBe(403)
    expect((await site.ask('/?login=wrong')).status).toBe(403)
    expect((await site.ask(`/${url.search}`, { method: 'HEAD' })).status).toBe(403)
    const answer = await site.ask(`/${url.search}`)
    expect(answer.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^lockstep-session-\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/),
    ])
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const headers = { cookie: answer.headers.getSetCookie()[0]!.split(';')[0]! }
    const page = await site.ask('/', { headers })
    expect([page.status, page.text]).toEqual([200, expect.stringContaining(queue.queue.name)])
    const again = await site.ask(`/${url.search}`)
    expect([again.status, again.headers.getSetCookie()]).toEqual([403, []])
    expect(again.text).toMatch(/was used before/)
    expect((await site.ask(`/${url.search}`, { headers })).status).toBe(200)
    const stolen = { cookie: `${headers.cookie}x` }
    expect((await site.ask('/', { headers: stolen })).status).toBe(403)
  })

  it('acts for the browser, tells what was done, and stops gracefully', async () => {
    const started = await start()
    const { site, command } = started
    await queue.push({ id: 'a', performIn: 0 })
    const session = await logIn(started)
    const token = await site.ask('/api/v1/session', { headers: session })
    const headers = {
      cookie: `${session.cookie}; ${token.headers.getSetCookie()[0]!.split(';')[0]}`,
      origin: site.origin,
      'sec-fetch-site': 'same-origin',
      'x-lockstep-token': token.json.token,
    }
    const path = `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/delete`
    expect((await site.ask(path, { body: { all: true }, headers: session })).status).toBe(403)
    expect(await queue.countJobs()).toBe(1)
    expect((await site.ask(path, { body: { all: true }, headers })).text).toContain('"result"')
    expect(await queue.countJobs()).toBe(0)
    command.child.kill('SIGTERM')
    const { code, stderr } = await command.ended
    expect([code, stderr]).toEqual([0, expect.stringContaining(`delete of the queue "${queue.queue.name}"`)])
  })

  it('a page of another host that leads here is refused', async () => {
    const started = await start()
    const { site, url } = started
    const session = await logIn(started)
    for (const host of ['evil.example', `evil.example:${url.port}`, '127.0.0.1.evil.example'])
      expect((await site.ask('/', { headers: { ...session, host } })).status).toBe(421)
    for (const host of ['localhost', 'localhost:9000', `[::1]:${url.port}`])
      expect((await site.ask('/', { headers: { ...session, host } })).status).toBe(200)
  })

  it('under a path, read-only', async () => {
    const started = await start(['--path', '/jobs', '--read-only'])
    const headers = await logIn(started)
    const { json } = await started.site.ask('/jobs/api/v1/session', { headers })
    expect(json).toMatchObject({ base: '/jobs', readOnly: true, may: { view: true, act: false } })
    expect((await started.site.ask('/api/v1/session')).status).toBe(403)
  })

  it('SIGINT ends it while an action runs, which stops', { tags: 'slow' }, async () => {
    const { command, site } = await start(['--open'])
    await queue.push(
      ...Array.from({ length: 2_000 }, (_, n) => ({ id: `job ${String(n).padStart(4, '0')}` })),
    )
    const holder = await env.transaction()
    await holder.query("SELECT FROM lockstep.jobs WHERE queue_id = $1 AND id = 'job 0700' FOR UPDATE", [
      queue.queueId,
    ])
    const path = `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/delete`
    const incoming = await site.begin(path, { body: { all: true }, headers: site.from(await site.visit()) })
    incoming.on('error', () => {})
    await until(async () => expect(await queue.countJobs()).toBeLessThanOrEqual(1_500))
    command.child.kill('SIGINT')
    await new Promise((resolve) => incoming.once('close', resolve).resume())
    expect((await command.ended).code).toBe(0)
    await holder.query('ROLLBACK')
    expect(await queue.countJobs()).toBeGreaterThan(0)
    await env.lockstep.delete(queue.queue, {})
  })
})

it('that npm started ends once npm’s shell has ended, which passes no signal on', async () => {
  const words = [process.execPath, builtMain(), 'web', '--json', '--port', '0']
  const shell = spawn('sh', ['-c', '"$@" & echo $! >&2; wait', 'sh', ...words], {
    env: { ...process.env, ...variables, npm_command: 'exec' },
  })
  const page = new Promise<string>((resolve) => shell.stdout.once('data', (text) => resolve(String(text))))
  const ended = once(shell.stdout, 'close')
  const site = new Site(new URL(JSON.parse(await page).url).origin)
  expect((await site.ask('/')).status).toBe(403)
  shell.kill('SIGTERM')
  // The page has the other end: it closes when that ends.
  await ended
  await expect(site.ask('/')).rejects.toThrow(/ECONNREFUSED/)
})

describe('for others', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lockstep-web-'))
    await chmod(folder, 0o755)
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('names and passwords come from a variable', async () => {
    const { site } = await start(['--host', '0.0.0.0'], { LOCKSTEP_BASIC_AUTH: '\nanna:a:b\r\ncarl:c\n' })
    const there = new Site(site.origin.replace('0.0.0.0', '127.0.0.1'))
    expect((await there.ask('/')).status).toBe(401)
    expect((await there.ask('/', { headers: basic('anna', 'a:b') })).status).toBe(200)
    expect((await there.ask('/', { headers: { ...basic('carl', 'c'), host: 'jobs.example' } })).status).toBe(
      200,
    )
    expect((await there.ask('/?login=x', { headers: basic('carl', 'c') })).status).toBe(403)
  })

  it('or from a file', async () => {
    const file = join(folder, 'users')
    await writeFile(file, 'anna:sesame\n')
    const { site } = await start(['--basic-auth-file', file])
    expect((await site.ask('/')).status).toBe(401)
    expect((await site.ask('/', { headers: basic('anna', 'sesame') })).status).toBe(200)
  })

  it.each([
    [
      'nothing that says who',
      ['--host', '0.0.0.0'],
      {},
      /others can reach "0.0.0.0": set LOCKSTEP_BASIC_AUTH/,
    ],
    ['both', ['--open'], { LOCKSTEP_BASIC_AUTH: 'a:sesame' }, /exclude each other/],
    [
      'no colon',
      [],
      { LOCKSTEP_BASIC_AUTH: 'sesame' },
      /line 1 of the names and passwords must be user:password/,
    ],
    ['a space at the end', [], { LOCKSTEP_BASIC_AUTH: 'a:b\nanna:sesame ' }, /line 2 .* has a space/],
    ['a space before it', [], { LOCKSTEP_BASIC_AUTH: '\ufeffanna:sesame' }, /line 1 .* invisible character/],
    ['a space after the colon', [], { LOCKSTEP_BASIC_AUTH: 'anna: sesame' }, /line 1 .* has a space/],
    ['nothing but a newline', [], { LOCKSTEP_BASIC_AUTH: ' \n' }, /LOCKSTEP_BASIC_AUTH is blank/],
    ['no such file', ['--basic-auth-file', '/nowhere/x'], {}, /--basic-auth-file can't be read: ENOENT/],
    ['a bad port', ['--port', '70000'], {}, /whole number from 0 to 65535/],
    ['a bad path', ['--path', 'jobs'], {}, /path must be a path such as \/jobs/],
    ['a bad origin', ['--origin', 'jobs.example'], {}, /origins\[0\] must be an origin/],
  ])('%s is wrong usage', async (_, args, more, message) => {
    const { code, stderr } = await runHere(['web', ...args], { ...variables, ...more })
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)])
    expect(stderr).not.toContain('sesame')
  })

  it('a port in use is told, and so is a database without our schema', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    const { code, stderr } = await runHere(['web', '--port', String(port)], variables)
    expect([code, stderr]).toEqual([1, expect.stringContaining(`port ${port} of 127.0.0.1 is in use`)])
    other.close()
    const missing = await runHere(['web', '--schema', 'elsewhere'], variables)
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringMatching(/run `lockstep migrate` first/)])
  })
})
