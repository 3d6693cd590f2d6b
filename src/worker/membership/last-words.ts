import { write } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

/** A file descriptor, and whether JSON lines are written to it. */
export interface LogTarget {
  readonly fd: number
  readonly json: boolean
}

const KEY = 'pg-lockstep: last words'
const STDERR: LogTarget = { fd: 2, json: false }
/** ms that writing may take: if no one reads, it would never end, and the kill must come before the lease ends. */
const PATIENCE = 20
/** The level `fatal` of pino. */
const LEVEL = 60

/** Sets where this process writes before it kills itself; by default stderr. Also for threads that start from now on. */
export function tellLastWordsTo(...targets: readonly LogTarget[]): void {
  setEnvironmentData(KEY, [...targets])
}

/**
 * Kills the process, and says so first: no one else knows why. It bypasses the logger, whose thread may be blocked.
 * @param working batches in progress
 */
export async function killProcess(working: number): Promise<void> {
  const kill = () => process.kill(process.pid, 'SIGKILL')
  setTimeout(kill, PATIENCE)
  const targets = (getEnvironmentData(KEY) as unknown as readonly LogTarget[] | undefined) ?? [STDERR]
  await Promise.allSettled(
    targets.map(({ fd, json }) => say(fd, json ? jsonLine(working) : textLine(working))),
  )
  kill()
}

/** A pipe may be full for a moment. */
async function say(fd: number, line: string): Promise<void> {
  let rest = Buffer.from(line)
  while (rest.length > 0) {
    const { bytesWritten } = await promisify(write)(fd, rest).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EAGAIN') return { bytesWritten: 0 }
      throw error
    })
    rest = rest.subarray(bytesWritten)
    if (rest.length > 0) await sleep(1)
  }
}

function jsonLine(working: number): string {
  const fields = { level: LEVEL, time: Date.now(), pid: process.pid, event: 'killed', working }
  return `${JSON.stringify({ ...fields, msg: message(working) })}\n`
}

function textLine(working: number): string {
  return `pg-lockstep: process ${process.pid}: ${message(working)}\n`
}

function message(working: number): string {
  return `killing itself: its lease ends or is over, and ${working === 1 ? 'a batch is' : `${working} batches are`} still in work that others may take`
}
