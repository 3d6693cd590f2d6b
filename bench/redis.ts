import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from '../src/postgres/embedded.ts'

export interface RedisServer {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
}

/** Redis' defaults, or every write on disk before it is acknowledged. */
export type Durability = 'default' | 'fsync'

const ARGUMENTS = { default: [], fsync: ['--appendonly', 'yes', '--appendfsync', 'always'] } as const

/** Starts the machine's `redis-server`; undefined if there is none. */
export async function startRedis(durability: Durability): Promise<RedisServer | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'pg-lockstep-redis-'))
  const port = await freePort()
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, ...ARGUMENTS[durability]],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const clear = () => rm(directory, { recursive: true, force: true })
  if (!(await isUp(child))) {
    await clear()
    return undefined
  }
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid!,
    async stop() {
      process.off('exit', end)
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      await clear()
    },
  }
}

async function isUp(child: ChildProcess): Promise<boolean> {
  const failed = new Promise<false>((resolve) => {
    child.once('error', () => resolve(false))
    child.once('exit', () => resolve(false))
  })
  const ready = new Promise<true>((resolve) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      if (line.includes('Ready to accept connections')) resolve(true)
    })
  })
  return Promise.race([ready, failed])
}
