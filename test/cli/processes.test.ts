import { expect, it, vi } from 'vitest'
import { defineQueue, type ProcessRow } from '../../src/index.ts'
import { runHere } from './in-process.ts'
import { useCommandWorkers } from './workers.ts'

const DEADLINE = { timeout: 30_000, interval: 50 }
const cli = useCommandWorkers()

const named = (event: string) => (line: { event?: string }) => line.event === event
const run = (...args: string[]) => runHere(['processes', ...args], cli.env)

it('says so where there is no process, none of the number, or one that seems dead', async () => {
  expect(await run()).toEqual({ code: 0, stdout: 'no worker process is registered\n', stderr: '' })
  expect(await run('--json')).toMatchObject({ code: 0, stdout: '[]\n' })
  expect(await run('stop', '7')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'lockstep: process 7 does not exist: no worker process is registered\n',
  })
  await cli.client.query(
    `INSERT INTO lockstep.processes (process_id, host, pid, version, slots, queues, lease, expires_at)
     OVERRIDING SYSTEM VALUE VALUES (7, 'gone', 1, '1', 1, '{}', 10000, clock_timestamp() - interval '1 minute')`,
  )
  expect(await run('stop', '7')).toEqual({
    code: 0,
    stdout: 'process 7 is told to stop; but it is silent: it may be dead, and follows only if it goes on\n',
    stderr: '',
  })
  await cli.client.query('DELETE FROM lockstep.processes')
  expect(await run('quiet', 'seven')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/whole number/),
  })
})

it('shows what a process does, makes it quiet, and stops it as SIGTERM does', async () => {
  await cli.library.enqueue(defineQueue('patient'), { id: 'id\u001b[31m' })
  const command = cli.work('waiting.ts', '--queues', 'patient', '--lease', '1000', '--shutdown-timeout', '0')
  await command.line(named('performing'))
  const { processId } = await command.line(named('started'))
  const number = String(processId)
  const row = await vi.waitFor(async () => {
    const [found] = JSON.parse((await run('list', '--json')).stdout) as ProcessRow[]
    expect(found!.doing).toMatchObject([{ queue: 'patient', ids: ['id\u001b[31m'] }])
    return found!
  }, DEADLINE)
  expect(row).toMatchObject({ processId, shards: [{ queue: 'patient', count: 16 }] })
  const { stdout } = await run()
  expect(stdout).toContain('id\\x1b[31m')
  expect(stdout).toMatch(/\d+ MB/)
  expect(stdout).toMatch(/ ago/)

  const quiet = await run('quiet', number)
  expect(quiet).toEqual({ code: 0, stdout: `process ${number} is told to be quiet\n`, stderr: '' })
  expect(await command.line(named('requested'))).toMatchObject({ request: 'quiet' })
  await vi.waitFor(async () => expect((await run()).stdout).toContain(`${number} (quiet)`), DEADLINE)

  const stop = await run('stop', number, '--json')
  expect(JSON.parse(stop.stdout)).toEqual({ processId, request: 'stop', overdue: false })
  expect(await command.line(named('stopping'))).toMatchObject({ signal: 'SIGTERM' })
  expect((await command.ended).code).toBe(0)
  const { items } = await cli.library.find('patient')
  expect(items).toMatchObject([{ state: 'waiting', retryCount: -1, crashes: 0 }])
})

it('stops one of several, in whose place its parent starts no other; after the last, the parent ends', async () => {
  const command = cli.work('ordered.ts', '--processes', '2')
  const processes = await vi.waitFor(async () => {
    const all = await cli.library.processes()
    expect(all).toHaveLength(2)
    return all
  }, DEADLINE)
  const [first, second] = processes
  await cli.library.stop(first!.processId)
  await vi.waitFor(async () => {
    const left = await cli.library.processes()
    expect(left.map(({ processId }) => processId)).toEqual([second!.processId])
  }, DEADLINE)
  await cli.library.stop(second!.processId)
  expect((await command.ended).code).toBe(0)
  const begun = command.lines.filter(({ event, msg }) => event === 'child' && / works$/.test(msg))
  expect(begun).toHaveLength(2)
})
