import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { configured as configuration } from '../../src/cli/work/configuration.ts'
import { schedulerOf, splitterOf } from '../../src/cli/work/flags.ts'
import { loadModules, selectQueues } from '../../src/cli/work/queues.ts'
import { defineQueue } from '../../src/queue.ts'
import { builtMain, Command, fixture, lockstep } from './command.ts'
import { useCommandWorkers } from './workers.ts'

const cli = useCommandWorkers()

beforeEach(async () => {
  await cli.client.query('TRUNCATE lockstep.jobs, lockstep.payloads, lockstep.morgue')
})

async function push(queue: string, ...ids: string[]): Promise<void> {
  await cli.library.enqueue(
    defineQueue(queue),
    ids.map((id) => ({ id })),
  )
}

const named = (event: string) => (line: { event?: string }) => line.event === event

describe('work --drain', () => {
  it('says where other nodes have to do their part', async () => {
    const command = cli.work('ordered.ts', '--drain', '--splitter', 'node:2/0')
    expect((await command.line(named('drain'))).msg).toMatch(/once all nodes have/)
    expect((await command.ended).code).toBe(0)
  })

  it('applies a shuffled file in the order of its scores, and ends', async () => {
    await cli.client.query(
      'CREATE TABLE applied (seq bigint GENERATED ALWAYS AS IDENTITY, id text, version integer)',
    )
    const rows = Array.from({ length: 300 }, (_, index) => `order-${index % 20},${index}`)
    const args = ['enqueue', 'ordered', '--csv', '--id', 'order', '--score', 'version', '--shuffle']
    const input = ['order,version', ...rows].join('\n')
    expect(await lockstep(args, { env: cli.env, input })).toMatchObject({ code: 0 })

    const { code } = await cli.work('ordered.ts', '--drain').ended
    expect(code).toBe(0)
    const { rows: applied } = await cli.client.query('SELECT id, version FROM applied ORDER BY seq')
    const last = new Map<string, number>()
    for (const { id, version } of applied) {
      expect(version).toBeGreaterThan(last.get(id) ?? -1)
      last.set(id, version)
    }
    expect(applied).toHaveLength(300)
  })

  it('tells of failures and deaths, a line each, and sums up', async () => {
    await push('failing', 'a', 'b')
    const command = cli.work('failing.ts', '--drain')
    const { code, stdout } = await command.ended
    expect(
      command.lines
        .filter(named('died'))
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(['a', 'b'])
    expect(command.lines.find(named('failed'))).toMatchObject({
      queue: 'failing',
      error: expect.stringMatching(/way/),
    })
    expect(command.lines.find(named('summary'))).toMatchObject({ processed: 0, failed: 2 })
    expect(stdout).not.toContain('\u001b')
    expect(code).toBe(0)
  })

  it('works the receipts of the example off', async () => {
    const example = new URL('../../docs/examples/receipts/queues.ts', import.meta.url).pathname
    const input = ['id,case:concept:name,concept:name,time:timestamp']
    for (let event = 0; event < 60; event += 1) {
      input.push(
        `${event},case-${event % 7},activity-${event},2011-10-11 13:45:${String(event).padStart(2, '0')}.276000+02:00`,
      )
    }
    const args = ['--csv', '--id', 'case:concept:name', '--score', 'time:timestamp', '--shuffle']
    await lockstep(['enqueue', 'receipts', ...args], { env: cli.env, input: input.join('\n') })
    expect(await lockstep(['work', '-r', example, '--drain'], { env: cli.env })).toMatchObject({ code: 0 })
    const { rows } = await cli.client.query(
      'SELECT position, lag(at) OVER (PARTITION BY case_id ORDER BY position) > at AS late FROM receipt_events',
    )
    expect(rows).toHaveLength(60)
    expect(rows.filter(({ late }) => late)).toEqual([])
  })
})

it('P3: goes on where nobody reads what handlers print any more', async () => {
  const command = cli.work('talking.ts')
  await command.line(named('started'))
  command.child.stdout!.destroy()
  await push('talking', 'a', 'b', 'c')
  await vi.waitFor(async () => expect((await cli.library.find('talking')).items).toEqual([]), 20_000)
  command.child.kill('SIGTERM')
  expect((await command.ended).code).toBe(0)
})

describe('signals (R15)', () => {
  it('SIGTTIN tells what every slot does, SIGTSTP makes quiet, SIGTERM aborts at the timeout and releases', async () => {
    await push('patient', 'a')
    const command = cli.work('waiting.ts', '--queues', 'patient', '--shutdown-timeout', '0')
    await command.line(named('performing'))
    await command.line(named('started'))
    command.child.kill('SIGTTIN')
    expect(await command.line(named('slot'))).toMatchObject({
      queue: 'patient',
      ids: ['a'],
      since: expect.any(String),
    })

    command.child.kill('SIGTSTP')
    await command.line(named('quiet'))
    await vi.waitFor(async () => expect(await cli.library.processes()).toMatchObject([{ quiet: true }]))

    command.child.kill('SIGTERM')
    expect((await command.ended).code).toBe(0)
    const { items } = await cli.library.find('patient')
    expect(items).toMatchObject([{ id: 'a', state: 'waiting', retryCount: -1, crashes: 0 }])
  })

  it('releases what ignores its signal, its numbers unchanged, and ends with 1', {
    tags: 'slow',
  }, async () => {
    await push('stuck', 'a')
    const command = cli.work('waiting.ts', '--queues', 'stuck', '--shutdown-timeout', '0')
    await command.line(named('performing'))
    await command.line(named('started'))
    command.child.kill('SIGTERM')
    expect((await command.ended).code).toBe(1)
    const { items } = await cli.library.find('stuck')
    expect(items).toMatchObject([{ id: 'a', state: 'waiting', retryCount: -1, crashes: 0 }])
  })

  it('ends at once at the second signal', async () => {
    await push('stuck', 'a')
    const command = cli.work('waiting.ts', '--queues', 'stuck')
    await command.line(named('performing'))
    await command.line(named('started'))
    command.child.kill('SIGINT')
    await command.line(named('stopping'))
    command.child.kill('SIGINT')
    expect((await command.ended).code).toBe(130)
  })
})

describe('--processes', () => {
  const works = (line: { event?: string; msg: string }) => line.event === 'child' && /works/.test(line.msg)
  const isAlive = (pid: number) => existsSync(`/proc/${pid}`)
  const childrenOf = (pid: number) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)

  it.each(['SIGTERM', 'SIGINT'] as const)('ends well by a %s while they start', async (signal) => {
    const command = cli.work('ordered.ts', '--processes', '2')
    // The child processes have begun, but do not handle signals yet.
    await vi.waitUntil(() => childrenOf(command.child.pid!).length === 2, { timeout: 30_000, interval: 5 })
    command.child.kill(signal)
    expect((await command.ended).code).toBe(0)
  })

  it('starts another in place of one that died, and passes SIGTERM on', { tags: 'slow' }, async () => {
    const command = cli.work('ordered.ts', '--processes', '2')
    await command.line((line) => works(line) && line.index === 1)
    const { child: victim } = await command.line((line) => works(line) && line.index === 0)
    process.kill(victim as number, 'SIGKILL')
    const successor = await command.line((line) => works(line) && line.index === 0 && line.child !== victim)
    expect(command.lines).toContainEqual(
      expect.objectContaining({ child: victim, signal: 'SIGKILL', byItself: false, pause: 250 }),
    )
    command.child.kill('SIGTERM')
    expect((await command.ended).code).toBe(0)
    expect(isAlive(successor.child as number)).toBe(false)
  })

  it('leaves no child behind when the parent is killed', async () => {
    const command = cli.work('ordered.ts', '--processes', '2')
    const first = await command.line((line) => works(line) && line.index === 0)
    const second = await command.line((line) => works(line) && line.index === 1)
    command.child.kill('SIGKILL')
    // The children hold the other end of stdout, so it closes with the last of them.
    await command.ended
    expect(command.lines.filter(named('stopped'))).toHaveLength(2)
    // A process that an earlier test killed may still have its lease.
    const left = (await cli.library.processes()).filter(({ pid }) =>
      [first.child, second.child].includes(pid),
    )
    expect(left).toEqual([])
  })

  it('does not try again what can not even start', async () => {
    const { code, stderr } = await cli.work('several.ts', '--processes', '2', '--queues', 'zbra').ended
    expect(stderr).toMatch(/no queue "zbra" is exported; did you mean "zebra"\?/)
    expect(code).toBe(2)
  })
})

describe('-r', () => {
  it.each([[], ['--processes', '2']])(
    'of a module that never finishes loading ends, and says so %s',
    async (...args) => {
      const { code, stderr } = await cli.work('unsettled.ts', ...args).ended
      expect(code).toBe(2)
      expect(stderr).toMatch(
        /unsettled.ts can't be loaded: it awaits something at its top level that never ends/,
      )
    },
  )

  it('serves what a module exports, in the order of its definition', async () => {
    const { queues } = await loadModules([fixture('several.ts'), fixture('ordered.ts')])
    expect(queues.map(({ name }) => name)).toEqual(['first', 'zebra', 'ant', 'ordered'])
    expect(selectQueues(queues, ['ant', 'zebra']).map(({ name }) => name)).toEqual(['zebra', 'ant'])
  })

  it.each([
    ['a file that is missing', 'none.ts', /none.ts: there is no such file/],
    ['a file without a queue', 'queueless.ts', /exports no queue/],
    ['one name twice', 'twice.ts', /queue "orders" is defined twice/],
  ])('refuses %s', async (_, file, message) => {
    await expect(loadModules([fixture(file)])).rejects.toThrow(message)
  })

  it.each([
    ['fastest', /--scheduler must be fair, lag, seq, weighted/],
    ['strict:zbra', /did you mean "zebra"/],
    ['weighted:zebra=0', /weight of "zebra" must be a number from 0.001 to 1000/],
    ['weighted:zebra', /weight of "zebra" must be a number from 0.001 to 1000/],
  ])('--scheduler %s is wrong usage', (text, message) => {
    expect(() => schedulerOf(text, [defineQueue('zebra')])).toThrow(message)
  })

  it.each([
    ['node:2', /--splitter must be dynamic, default or node:K\/k/],
    ['node:2/2', /whole number from 0 to 1/],
  ])('--splitter %s is wrong usage', (text, message) => {
    expect(() => splitterOf(text, { index: 0, of: 1 })).toThrow(message)
  })

  it('a fixed splitter gives its share to the processes, each shard to one', () => {
    const shards = Array.from({ length: 24 }, (_, shard) => ({ queueId: 1, shard }))
    const hand = { shards, first: 0, processes: 1, rank: 0, same: true, holds: () => false }
    const rebalanced = [0, 1, 2].map(
      (index) => splitterOf('node:2/1', { index, of: 3 }).share(hand, 1).wanted,
    )
    expect(rebalanced.map((share) => share.length)).toEqual([4, 4, 4])
    expect(
      rebalanced
        .flat()
        .map(({ shard }) => shard)
        .toSorted((a, b) => a - b),
    ).toEqual(shards.map(({ shard }) => shard).filter((shard) => shard % 2 === 1))
  })
})

describe('configure', () => {
  const configured = (CONFIGURE?: string, ...args: string[]) => {
    const command = new Command(['work', '-r', fixture('configured.ts'), ...args], {
      env: { ...cli.env, ...(CONFIGURE ? { CONFIGURE } : {}) },
    })
    cli.start(command)
    return command
  }

  it('sets up, surrounds handlers, listens, and tears down', async () => {
    const command = configured()
    expect(await command.line(named('set up'))).toMatchObject({ queues: ['configured'], rank: 0 })
    await command.line(named('started'))
    await push('configured', 'good', 'bad')
    expect(await command.line(named('around'))).toMatchObject({ queue: 'configured' })
    expect(await command.line(named('measured'))).toMatchObject({ ids: ['good'] })
    expect(await command.line(named('heard'))).toMatchObject({ id: 'bad' })
    await command.line(named('picked'))
    command.child.kill('SIGTERM')
    expect((await command.ended).code).toBe(0)
    expect(command.lines.at(-1)).toMatchObject({ event: 'torn down' })
    const { items } = await cli.library.find('configured', { ids: ['bad'] })
    expect(items).toMatchObject([{ error: 'left out' }])
    await cli.library.delete('configured', {})
  })

  it('yields to a flag', async () => {
    const command = configured(undefined, '--scheduler', 'seq', '--drain')
    await push('configured', 'good')
    expect((await command.ended).code).toBe(0)
    expect(command.lines.some(named('picked'))).toBe(false)
  })

  it('says why it failed, or what it misspelt', async () => {
    expect(await configured('fails').ended).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/configure\(\) of .*configured\.ts failed: no Sentry/),
    })
    expect(await configured('misspells').ended).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/configure\(\) of .*configured\.ts.*midleware/),
    })
  })

  it('says so, too, if it throws at once', async () => {
    expect(await configured('throws').ended).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/configure\(\) of .*configured\.ts failed: no Sentry/),
    })
  })

  it('does not keep the process from SIGTERM while it hangs, though it listens to that', async () => {
    const command = configured('never ends')
    await command.line(named('hanging'))
    command.child.kill('SIGTERM')
    await command.ended
    expect(command.child.signalCode).toBe('SIGTERM')
  })

  it('is given up if it takes too long, and its file is named', async () => {
    const hanging = [{ file: 'hangs.ts', configure: () => new Promise<never>(() => {}) }]
    await expect(configuration(hanging, { queues: [], rank: 0 }, 20)).rejects.toMatchObject({
      code: 'LOCKSTEP_USAGE',
      message: expect.stringMatching(
        /^configure\(\) of hangs\.ts has not ended within 20 ms: look for what it awaits/,
      ),
    })
    expect(process.listenerCount('SIGTERM')).toBe(0)
  })

  it('can’t keep the process with its tear-down', { tags: 'slow' }, async () => {
    const command = configured('hangs', '--drain')
    expect((await command.ended).code).toBe(0)
    expect(await command.line(named('stop'))).toMatchObject({ error: 'it took 5000 ms' })
  })

  it('is there once', async () => {
    const twice = ['work', '-r', fixture('configured.ts'), '-r', fixture('configured-too.ts')]
    expect(await lockstep(twice, { env: cli.env })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /configure is exported by .*configured\.ts and by .*configured-too\.ts: keep one/,
      ),
    })
  })
})

it('started by npm, stops gracefully at SIGTERM, though npm’s shell passes nothing on', async () => {
  const folder = await mkdtemp(join(import.meta.dirname, '.npm-'))
  const scripts = { worker: `node ${builtMain()} work -r ${fixture('waiting.ts')} && echo stopped` }
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, scripts }))
  const npm = spawn('npm', ['run', '--silent', 'worker'], {
    cwd: folder,
    env: { ...process.env, ...cli.env },
  })
  try {
    const lines = createInterface(npm.stdout)
    const log: { event?: string; msg: string }[] = []
    const ended = once(lines, 'close')
    const begun = new Promise<void>((resolve) =>
      lines.on('line', (line) => {
        if (line.startsWith('{')) log.push(JSON.parse(line))
        if (log.some(named('started'))) resolve()
      }),
    )
    await begun
    npm.kill('SIGTERM')
    await ended
    expect(log.at(-1)).toMatchObject({ event: 'stopped' })
  } finally {
    await rm(folder, { recursive: true })
  }
})
