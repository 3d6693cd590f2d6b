import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { Command, fixture } from '../cli/command.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
/** Of the user, which stays beside ours. */
const OWN = '--disable-warning=OWN'
const LIMITED = '--max-semi-space-size=8'
/** Node lets the young generation grow since it can replace its program. */
const limits = 'execve' in process ? 1 : 0

/** What the handler of a fixture prints, the queue of which has the same name. */
async function printed(
  name: string,
  args: readonly string[],
  options: NodeJS.ProcessEnv = {},
): Promise<string> {
  await env.lockstep.enqueue(defineQueue(name), { id: 'a' })
  const command = new Command(['work', '-r', fixture(`${name}.ts`), '--drain', ...args], {
    env: { DATABASE_URL: env.connectionString, ...options },
    flags: [OWN],
  })
  env.later(() => command.child.kill('SIGKILL'))
  const { msg } = await command.line(({ event }) => event === name)
  expect((await command.ended).code).toBe(0)
  return msg
}

/** What Node was started with. */
async function flagsOf(args: readonly string[], options?: NodeJS.ProcessEnv): Promise<string[]> {
  return (await printed('flags', args, options)).split(' ')
}

/** The most MB that the heap took. */
async function heapOf(args: readonly string[], options?: NodeJS.ProcessEnv): Promise<number> {
  return Number(await printed('garbage', args, options))
}

const count = (flags: readonly string[]) => flags.filter((flag) => flag === LIMITED).length

test.each([['1'], ['2']])(
  '`lockstep work --processes %s` keeps V8’s young generation small',
  async (processes) => {
    const flags = await flagsOf(['--processes', processes])
    expect(count(flags)).toBe(limits)
    expect(flags).toContain(OWN)
  },
)

test('a size that the user has chosen stays', async () => {
  for (const chosen of ['--max-semi-space-size=32', '--max_semi_space_size=32'])
    expect(count(await flagsOf([], { NODE_OPTIONS: chosen }))).toBe(0)
})

test('the old generation grows little, unless the user has set the size of the young one', async () => {
  const usual = await heapOf([], { NODE_OPTIONS: LIMITED })
  expect(await heapOf([])).toBeLessThan(0.8 * usual)
  expect(await heapOf(['--processes', '2'])).toBeLessThan(0.8 * usual)
})
