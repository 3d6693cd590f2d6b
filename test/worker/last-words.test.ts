import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

const LAST_WORDS = new URL('../../src/worker/membership/last-words.ts', import.meta.url).href

/** Runs this code as a module that knows last-words.ts. No one reads its output until a test does. */
function run(code: string) {
  const program = `import { killProcess, tellLastWordsTo } from '${LAST_WORDS}'\n${code}`
  return spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program])
}

test('P1: a process that kills itself says so on stderr before, though its event loop is blocked', async () => {
  const child = run(`
    import { Worker } from 'node:worker_threads'
    new Worker("import('tsx/esm/api').then(({ register }) => { register(); return import('${LAST_WORDS}') }).then((m) => m.killProcess(2))", { eval: true })
    for (;;);
  `)
  const [stderr, [, signal]] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect(stderr).toBe(
    `pg-lockstep: process ${child.pid}: killing itself: its lease ends or is over, and 2 batches are still in work that others may take\n`,
  )
  expect(signal).toBe('SIGKILL')
})

test('P1: a log that nobody reads from does not keep it alive', async () => {
  const child = run(`
    import { write, writeSync } from 'node:fs'
    tellLastWordsTo({ fd: 1, json: true })
    let [written, seen] = [0, -1]
    const fill = (size) => write(1, Buffer.alloc(size), (error) => { if (!error) written += 1, fill(size) })
    for (const size of [1 << 16, 1]) fill(size)
    setInterval(() => {
      if (written === seen) writeSync(2, 'nothing more fits'), killProcess(1)
      seen = written
    }, 100)
  `)
  await once(child.stderr, 'data')
  const began = performance.now()
  const [, signal] = await once(child, 'exit')
  expect(signal).toBe('SIGKILL')
  expect(performance.now() - began).toBeLessThan(2_000)
})
