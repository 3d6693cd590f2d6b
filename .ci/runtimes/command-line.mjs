import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import pg from 'pg'

/** ms: what hangs has failed. */
const PATIENCE = 30_000

/** Runs the command `lockstep` as `command`, a list, in the folder `cwd` with the database of `env.DATABASE_URL`. */
export async function checkCommandLine(place) {
  await succeeds(place, ['migrate'])
  await succeeds(
    place,
    ['enqueue', 'orders-by-hand', '--ndjson', '--id', 'id'],
    '{"id":"order-1","status":"paid"}\n',
  )
  assert.equal((await queue(place)).waiting, 1)
  await checkWork(place)
  assert.equal((await queue(place)).waiting, 0)
  await checkProcesses(place)
  await checkLostLease(place)
}

async function checkWork(place) {
  const work = start(place, ['work', '-r', './queues.ts'])
  await work.says('order-1 paid')
  work.child.kill('SIGTERM')
  assert.deepEqual(await work.end(), { code: 0, signal: null }, work.output())
}

async function checkProcesses(place) {
  const work = start(place, ['work', '-r', './queues.ts', '--processes', '2'])
  await work.says(/works"[\s\S]*works"/)
  work.child.kill('SIGTERM')
  assert.deepEqual(await work.end(), { code: 0, signal: null }, work.output())
  assert.doesNotMatch(work.output(), /at once|killed/)
}

/** A process whose lease is over kills itself if a handler goes on. */
async function checkLostLease(place) {
  await succeeds(place, ['enqueue', 'stuck', '--ndjson', '--id', 'id'], '{"id":"order-1"}\n')
  const work = start(place, ['work', '-r', './stuck.ts', '--lease', '2000'])
  await work.says('began')
  const client = new pg.Client({ connectionString: place.env.DATABASE_URL })
  await client.connect()
  await client.query('DELETE FROM lockstep.processes')
  await client.end()
  assert.deepEqual(await work.end(), { code: null, signal: 'SIGKILL' }, work.output())
  assert.match(work.output(), /killing itself/)
}

async function succeeds(place, parameters, input = '') {
  const command = start(place, parameters, input)
  assert.deepEqual(await command.end(), { code: 0, signal: null }, command.output())
  return command.stdout()
}

async function queue(place) {
  const { queues } = JSON.parse(await succeeds(place, ['stats', '--json']))
  return queues.find(({ queue }) => queue === 'orders-by-hand')
}

function start({ command: [file, ...first], cwd, env }, parameters, input = '') {
  const child = spawn(file, [...first, ...parameters], { cwd, env, timeout: PATIENCE, killSignal: 'SIGABRT' })
  child.stdin.end(input)
  let [all, out] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text))
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (all += text))
  const closed = once(child, 'close').then(([code, signal]) => ({ code, signal }))
  return {
    child,
    output: () => all,
    stdout: () => out,
    end: () => closed,
    async says(what) {
      while (all.search(what) < 0) {
        const ended = await Promise.race([closed, once(child.stdout, 'data')])
        if (!Array.isArray(ended) && all.search(what) < 0)
          throw new Error(`lockstep ${parameters.join(' ')} did not say ${what}:\n${all}`)
      }
    },
  }
}
