import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serverAccount } from '../../src/postgres/embedded/account.ts'

const PLACES = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`
const DEADLINE = 10_000

/** Whether a real PgBouncer is installed. */
export function hasPgBouncer(): boolean {
  try {
    execFileSync('pgbouncer', ['--version'], { env: { PATH: PLACES }, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export interface PgBouncer {
  readonly connectionString: string
  stop(): Promise<void>
}

/** A PgBouncer in transaction mode in front of the server. It accepts every user. */
export async function startPgBouncer(connectionString: string): Promise<PgBouncer> {
  const directory = mkdtempSync(join(tmpdir(), 'lockstep-pgbouncer-'))
  const port = 20_000 + Math.floor(Math.random() * 10_000)
  const file = join(directory, 'pgbouncer.ini')
  writeFileSync(file, configuration(new URL(connectionString), port))
  // PgBouncer refuses to run as root, so another user must be able to read its files.
  for (const [path, mode] of [
    [directory, 0o755],
    [file, 0o644],
  ] as const)
    chmodSync(path, mode)
  const bouncer = spawn('pgbouncer', ['-q', file], {
    env: { PATH: PLACES },
    stdio: 'ignore',
    ...(await serverAccount()),
  })
  const url = new URL(connectionString)
  url.host = `127.0.0.1:${port}`
  await answering(bouncer, port)
  return {
    connectionString: url.href,
    async stop() {
      bouncer.kill('SIGKILL')
      if (bouncer.exitCode === null && bouncer.signalCode === null) await once(bouncer, 'exit')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function configuration({ hostname, port, pathname, username, password }: URL, listen: number): string {
  const server = `host=${hostname} port=${port} dbname=${pathname.slice(1)} user=${username} password=${password}`
  return `[databases]
* = ${server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits
`
}

async function answering(bouncer: ChildProcess, port: number): Promise<void> {
  const until = performance.now() + DEADLINE
  for (;;) {
    const socket = createConnection(port, '127.0.0.1')
    const [event] = await Promise.race([
      once(socket, 'connect').then(() => ['connect']),
      new Promise<string[]>((resolve) => socket.on('error', () => resolve(['error']))),
    ])
    socket.destroy()
    if (event === 'connect') return
    if (bouncer.exitCode !== null || performance.now() > until) throw new Error('PgBouncer does not answer')
    await sleep(20)
  }
}
