import { beforeEach, describe, expect, it, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { useWorkers } from '../support/worker-environment.ts'
import { Command, fixture } from './command.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const env = useWorkers()

beforeEach(() => env.sql('TRUNCATE lockstep.jobs, lockstep.payloads, lockstep.morgue'))

function work(file: string, ...args: string[]): Command {
  const variables = { DATABASE_URL: env.connectionString }
  const command = new Command(['work', '-r', fixture(file), ...args], { env: variables })
  env.later(() => command.child.kill('SIGKILL'))
  return command
}

async function push(queue: string, id: string): Promise<void> {
  await env.lockstep.enqueue(defineQueue(queue), { id })
}

const named = (event: string) => (line: { event?: string }) => line.event === event

describe('a process that is stopped for longer than its lease, and whose handler ignores its signal (P1)', () => {
  const LEASE = ['--queues', 'stuck', '--lease', '500']

  /** Stops the process, like a machine that is suspended, until its lease is over. */
  async function suspend(pid: number): Promise<void> {
    process.kill(pid, 'SIGSTOP')
    await vi.waitFor(async () => {
      const rows = await env.sql(
        'SELECT FROM lockstep.processes WHERE pid = $1 AND expires_at > clock_timestamp()',
        [pid],
      )
      // Another process may have removed it by then.
      expect(rows).toEqual([])
    }, 10_000)
    process.kill(pid, 'SIGCONT')
  }

  it('kills itself, and says so at the end of its log', async () => {
    await push('stuck', 'a')
    const command = work('waiting.ts', ...LEASE)
    await command.line(named('performing'))
    await suspend(command.child.pid!)
    await command.ended
    expect(command.child.signalCode).toBe('SIGKILL')
    // A separate thread logs that. At the same time, the main thread may log that the lease is over.
    expect(command.lines.find(named('killed'))).toMatchObject({
      level: 60,
      time: expect.any(Number),
      pid: command.child.pid,
      event: 'killed',
      working: 1,
      msg: expect.stringMatching(/killing itself: its lease ends or is over/),
    })
  })

  it('under a supervisor, whose log says that nobody else did it', async () => {
    await push('stuck', 'a')
    const command = work('waiting.ts', ...LEASE, '--processes', '2')
    const { pid } = await command.line(named('performing'))
    await suspend(pid as number)
    const told = await command.line((line) => line.child === pid && 'signal' in line)
    expect(told).toMatchObject({ signal: 'SIGKILL', byItself: true, pause: 250 })
    expect(told.msg).toMatch(/killed itself, since its lease ended while jobs were in work: starting another/)
  })
})

it.each(['1', '2'])('process.exit(0) in a handler is no good end, with --processes %s', async (processes) => {
  await push('deadly', 'exit')
  const command = work('deadly.ts', '--processes', processes, '--drain', '--lease', '500')
  const { code } = await command.ended
  expect(command.lines).toContainEqual(expect.objectContaining({ event: 'exit' }))
  // A single process ends with its job undone. A parent starts further processes until the job has crashed too often.
  expect(code).toBe(processes === '1' ? 1 : 0)
  expect((await env.lockstep.findDead('deadly')).items).toHaveLength(processes === '1' ? 0 : 1)
})

it('process.exit(75) in a handler does not end those of other processes', async () => {
  await push('deadly', 'outdated')
  const command = work('deadly.ts', '--processes', '2', '--drain', '--lease', '500')
  expect((await command.ended).code).toBe(0)
  expect((await env.lockstep.findDead('deadly')).items).toHaveLength(1)
})

it('starts another though a job killed the first before any had said that it works', async () => {
  await push('deadly', 'kill')
  const command = work('deadly.ts', '--processes', '2', '--drain', '--lease', '500')
  const { code } = await command.ended
  expect(command.lines).toContainEqual(expect.objectContaining({ signal: 'SIGKILL', pause: 250 }))
  expect(code).toBe(0)
  expect((await env.lockstep.findDead('deadly')).items).toMatchObject([{ id: 'kill' }])
})
