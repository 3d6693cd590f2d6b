import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { Command, fixture } from '../cli/command.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const LIMITED = '--max-semi-space-size=8'
/** Node lets the young generation grow since it can replace its program. */
const limits = 'execve' in process ? 1 : 0

/** How often the processes of `lockstep work` were started with each flag. */
async function flagsOf(args: readonly string[], options: NodeJS.ProcessEnv = {}): Promise<string[]> {
  await env.lockstep.enqueue(defineQueue('flags'), { id: 'a' })
  const command = new Command(['work', '-r', fixture('flags.ts'), '--drain', ...args], {
    env: { DATABASE_URL: env.connectionString, ...options },
  })
  env.later(() => command.child.kill('SIGKILL'))
  const { msg } = await command.line(({ event }) => event === 'flags')
  expect((await command.ended).code).toBe(0)
  return msg.split(' ')
}

const count = (flags: readonly string[]) => flags.filter((flag) => flag === LIMITED).length

test.each([['1'], ['2']])(
  '`lockstep work --processes %s` keeps V8’s young generation small',
  async (processes) => {
    const flags = await flagsOf(['--processes', processes])
    expect(count(flags)).toBe(limits)
    expect(flags).toContain('--import')
  },
)

test('a size that the user has chosen stays', async () => {
  for (const chosen of ['--max-semi-space-size=32', '--max_semi_space_size=32'])
    expect(count(await flagsOf([], { NODE_OPTIONS: chosen }))).toBe(0)
})
