import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../../src/cli/work/log.ts'
import { defineQueue } from '../../src/index.ts'
import { Command, type Ended, fixture } from '../cli/command.ts'
import { runHere } from '../cli/in-process.ts'
import { useWorkers } from '../support/worker-environment.ts'
import { HOSTILE, RAW } from './hostile.ts'

const LATER = new Date('2999-01-01')
const env = useWorkers()
afterEach(() => env.sql('TRUNCATE lockstep.jobs, lockstep.payloads, lockstep.morgue'))

describe('what a person sees', () => {
  const EVIL = 'evil\u001b[2J\u009b\u202e\n"; DROP'

  async function runAll(commands: readonly string[][]) {
    const ended: (Ended & { args: string[] })[] = []
    for (const args of commands)
      ended.push({ args, ...(await runHere(args, { DATABASE_URL: env.connectionString })) })
    return ended
  }

  test('holds no raw control character, and the JSON gives everything back', async () => {
    const library = env.lockstep
    const queue = defineQueue(EVIL, { shards: 1 })
    await library.enqueue(
      queue,
      HOSTILE.map((id) => ({ id, payload: id, score: 1, performIn: LATER })),
    )
    await library.kill(queue, { id: { from: 'a' } })
    await env.sql('UPDATE lockstep.morgue SET error = $1', [HOSTILE.join(' ')])
    await env.sql('UPDATE lockstep.jobs SET error = $1', [`\r${HOSTILE.join(' ')}`])
    await env.sql(
      `INSERT INTO lockstep.processes (host, pid, version, slots, queues, expires_at)
       VALUES ($1, 1, '0', 1, $2, clock_timestamp() + interval '1 minute')`,
      [EVIL, [EVIL]],
    )
    const file = join(await mkdtemp(join(tmpdir(), 'hostile-')), `${EVIL.replaceAll('/', '')}.csv`)
    env.later(() => rm(dirname(file), { recursive: true }))
    await writeFile(file, `id,__proto__,constructor,"${EVIL.replaceAll('"', '""')}"\n=1+1,b,c,d\n`)
    const stated = await runAll([
      ['stats'],
      ['top', '--once'],
      ['jobs', 'find', EVIL],
      ['morgue', 'list', EVIL],
      ['pause', 'unknown'],
      ['enqueue', EVIL, file, '--id', 'id'],
      ['enqueue', 'x', file, '--id', `no ${EVIL}`],
      ['enqueue', 'x', file, '--id', 'id', '--score', EVIL, '--dry-run'],
      ['enqueue', 'x', `${file}.csv`, '--id', 'id'],
      ['migrate', '--schema', 'a\u202eb'],
      [EVIL],
      ['stats', `--${EVIL}`],
      ['stats', '--schema', `a'${EVIL}`],
      ['reshard', 'x', EVIL],
    ])
    for (const { args, stdout, stderr } of stated) {
      expect(stdout, args.join(' ')).not.toMatch(RAW)
      expect(stderr, args.join(' ')).not.toMatch(RAW)
      expect(stdout + stderr).not.toBe('')
    }
    const codes = stated.map(({ args, code }) => `${args[0]} ${code}`)
    expect(codes.filter((code) => code.endsWith(' 0'))).toHaveLength(6)

    const given = await runAll([
      ['stats', '--json'],
      ['top', '--once', '--json'],
      ['jobs', 'find', EVIL, '--json', '--by', 'id'],
      ['morgue', 'list', EVIL, '--json', '--by', 'id'],
    ])
    for (const { stdout } of given) {
      expect(stdout).not.toMatch(RAW)
      expect(stdout.trimEnd()).not.toContain('\n')
    }
    const [stats, top, jobs, dead] = given.map(({ stdout }) => JSON.parse(stdout))
    expect(stats.queues.map(({ queue }: { queue: string }) => queue)).toContain(EVIL)
    expect(top.processes).toMatchObject([{ host: EVIL, queues: [EVIL] }])
    const ids = [...jobs.items, ...dead.items].map(({ id }) => id)
    expect(ids.toSorted()).toEqual([...HOSTILE, '=1+1'].toSorted())
    const row = jobs.items.find(({ id }: { id: string }) => id === '=1+1').payloads[0].payload
    expect(new Map(Object.entries(row))).toEqual(
      new Map([
        ['id', '=1+1'],
        ['__proto__', 'b'],
        ['constructor', 'c'],
        [EVIL, 'd'],
      ]),
    )
    await env.sql('DELETE FROM lockstep.processes')
  })

  test('in the log is a line of JSON for each event', async () => {
    const queue = defineQueue('failing')
    await env.lockstep.enqueue(
      queue,
      HOSTILE.map((id) => ({ id })),
    )
    const work = new Command(['work', '-r', fixture('failing.ts'), '--drain'], {
      env: { DATABASE_URL: env.connectionString },
    })
    const { code, stdout } = await work.ended
    expect(code).toBe(0)
    expect(stdout).not.toMatch(RAW)
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const died = lines.filter(({ event }) => event === 'died').map(({ id }) => id)
    expect(died.toSorted()).toEqual(HOSTILE.toSorted())
  })

  test('in the text of a log holds no raw control character, whatever a handler logs', () => {
    const written: string[] = []
    vi.stubEnv('FORCE_COLOR', '')
    vi.stubEnv('NO_COLOR', '1')
    const { isTTY } = process.stdout
    process.stdout.isTTY = true
    const write = vi
      .spyOn(process.stdout, 'write')
      .mockImplementation((text) => written.push(String(text)) > 0)
    const circular: Record<string, unknown> = {}
    circular.self = circular
    try {
      const logger = createLogger(false)
      for (const text of HOSTILE) logger.warn({ [text]: text, nested: { [text]: [text] } }, text)
      logger.error({ circular, nothing: undefined, large: 1n, call: () => {} }, 'odd')
    } finally {
      write.mockRestore()
      process.stdout.isTTY = isTTY
      vi.unstubAllEnvs()
    }
    expect(written).toHaveLength(HOSTILE.length + 1)
    for (const line of written) {
      expect(line.endsWith('\n')).toBe(true)
      expect(line.slice(0, -1)).not.toMatch(/\n/)
      expect(line).not.toMatch(RAW)
    }
  })
})
