import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Client } from 'pg'

/** The first field of the first row. */
export async function ask(connectionString: string, question: string): Promise<unknown> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query({ text: question, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

export interface Trace {
  pid: number
  directory: string
}

/** What to look for afterwards: the server's main process, and the temporary directory that holds everything. */
export async function traceOf(connectionString: string): Promise<Trace> {
  const data = String(await ask(connectionString, 'SHOW data_directory'))
  const [pid] = (await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')
  return { pid: Number(pid), directory: dirname(data) }
}

export function remains({ pid, directory }: Trace) {
  return { process: isAlive(pid), directory: existsSync(directory) }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
