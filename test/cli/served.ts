import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { Command } from './command.ts'

export interface Served {
  readonly command: Command
  readonly port: number
  readonly adminPort: number
}

export interface ServedEnvironment {
  /** Once a test has begun. */
  readonly env: StoreEnvironment
  /** `lockstep serve` with these arguments, for one test. */
  start(args?: readonly string[]): Promise<Served>
}

export function useServed(): ServedEnvironment {
  let env: StoreEnvironment
  const commands: Command[] = []
  beforeAll(async () => {
    env = await openStore()
  })
  afterEach(async () => {
    for (const { child, ended } of commands.splice(0)) {
      child.kill('SIGKILL')
      await ended
    }
  })
  afterAll(() => env.close())
  return {
    get env() {
      return env
    },
    start: async (args = []) => {
      const command = new Command(['serve', '--json', '--port', '0', '--admin-port', '0', ...args], {
        env: { DATABASE_URL: env.connectionString },
      })
      commands.push(command)
      const { url, adminUrl } = await command.line((one) => 'url' in one)
      const portOf = (address: unknown) => Number(new URL(address as string).port)
      return { command, port: portOf(url), adminPort: portOf(adminUrl) }
    },
  }
}

/** All that is answered to these bytes, until the server closes the connection. */
export async function answerTo(port: number, bytes: string): Promise<string> {
  const socket: Socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(bytes)
  return text(socket)
}
