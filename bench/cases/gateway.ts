import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Bench, Case, Figures } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { load, type Shot } from '../measure/load.ts'
import { settle } from './work.ts'

const MAIN = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url))
export const CONNECTIONS = 32

/** `lockstep serve` in a process of its own. */
export class Gateway {
  readonly url: string
  readonly adminUrl: string
  readonly #process: ChildProcess

  private constructor(process: ChildProcess, url: string, adminUrl: string) {
    this.#process = process
    this.url = url
    this.adminUrl = adminUrl
  }

  static async start(connectionString: string): Promise<Gateway> {
    const args = [MAIN, 'serve', '--json', '--port', '0', '--admin-port', '0']
    const child = spawn(process.execPath, args, {
      env: { ...process.env, DATABASE_URL: connectionString },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
    const { url, adminUrl } = JSON.parse(line) as { url: string; adminUrl: string }
    return new Gateway(child, url, adminUrl)
  }

  /** MB that are resident. */
  async memory(): Promise<number> {
    const status = await readFile(`/proc/${this.#process.pid}/status`, 'utf8')
    return (Number(/VmRSS:\s+(\d+)/.exec(status)![1]) * 1024) / 1_000_000
  }

  async stop(): Promise<void> {
    this.#process.kill('SIGTERM')
    await once(this.#process, 'close')
  }
}

export async function during(bench: Bench, run: (gateway: Gateway) => Promise<Figures>): Promise<Figures> {
  const gateway = await Gateway.start(bench.setting.connectionString)
  try {
    return await run(gateway)
  } finally {
    await gateway.stop()
  }
}

export interface Shooting {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly shots: readonly Shot[]
  /** Jobs of a turn. */
  readonly each: number
}

/** Jobs a second. */
export async function shoot({ size, pool, meters }: Bench, shooting: Shooting): Promise<Figures> {
  const { each, ...others } = shooting
  await settle(pool)
  const before = await meters.read()
  // The same number of turns on each connection.
  const amount = Math.ceil(size.jobs / each / CONNECTIONS) * CONNECTIONS
  const { seconds } = await load({ ...others, connections: CONNECTIONS, amount })
  const cost = costOf(before, await meters.read(), amount * each)
  return { value: (amount * each) / seconds, cost }
}

export const COMMON = { entrants: standard([LOCKSTEP]), inQuick: false } as const

/** Jobs a second, in four times as many jobs as a glance takes. */
export function rateCase(name: string, title: string, jobs: number, run: Case['run']): Case {
  const size = { jobs, patience: 120 }
  return { ...COMMON, name, title, unit: 'jobs/s', full: size, quick: { ...size, jobs: jobs / 4 }, run }
}
