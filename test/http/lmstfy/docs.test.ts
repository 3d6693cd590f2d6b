import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../src/postgres/embedded.ts'
import { Command, lockstep } from '../../cli/command.ts'
import { createDatabase } from '../../support/database.ts'
import { answersOf, isInstalled, shapeOf } from '../../support/docs-code.ts'
import { decoded } from './wire.ts'

const INTRODUCTION = readFileSync('docs/lmstfy.md', 'utf8').split('\n## ')[0]!
const hasCurl = await isInstalled('curl')

const blocksOf = (language: string) =>
  [...INTRODUCTION.matchAll(/^```(\w+)\n(.*?)^```/gms)]
    .filter((match) => match[1] === language)
    .map((match) => match[2]!)

/** The arguments of each call of `lockstep`. */
function callsIn(script: string): string[][] {
  return [...script.matchAll(/^npx lockstep (.+)$/gm)].map((match) => match[1]!.split(' '))
}

describe.skipIf(!hasCurl)('with curl', () => {
  test('the commands migrate a database, serve it, publish, consume and acknowledge', {
    timeout: 120_000,
  }, async () => {
    const [setup, requests, acknowledging] = blocksOf('sh') as [string, string, string]
    const shown = JSON.parse(blocksOf('json')[0]!)
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const env = { DATABASE_URL: database.connectionString }
    const ports = new Map([
      ['7777', `${await freePort()}`],
      ['7778', `${await freePort()}`],
    ])
    const placed = (text: string) => text.replaceAll(/777[78]/g, (port) => ports.get(port)!)
    const [migrate, serve, ...others] = callsIn(placed(setup)) as [string[], string[], ...string[][]]
    expect([migrate[0], serve[0], others]).toEqual(['migrate', 'serve', []])
    expect((await lockstep(migrate, { env })).code).toBe(0)
    const gateway = new Command([...serve, '--json'], { env })
    onTestFinished(async () => {
      gateway.child.kill('SIGTERM')
      expect((await gateway.ended).code).toBe(0)
    })
    await gateway.line((line) => 'url' in line)
    const [published, consumed, TOKEN] = await answersOf(`${placed(requests)}\necho "\\"$TOKEN\\""`)
    expect(published).toEqual({ msg: 'published', job_id: consumed.job_id })
    expect(shapeOf(consumed)).toEqual(shapeOf(shown))
    const { msg, namespace, queue, job_id, data, remain_tries } = shown
    expect(consumed).toMatchObject({ msg, namespace, queue, data, remain_tries })
    expect(requests).toContain(`-d '${decoded(data)}'`)
    const find = `curl "localhost:7777/api/shop/orders/job/${job_id}" -H "X-Token: $TOKEN"`
    const ofJob = (script: string) =>
      answersOf(placed(script).replace(job_id, consumed.job_id), { ...process.env, TOKEN })
    expect(await ofJob(find)).toMatchObject([{ job_id: consumed.job_id }])
    expect(await ofJob(acknowledging)).toEqual([])
    expect(await ofJob(`${find} || true`)).toEqual([{ error: 'job not found' }])
  })
})

test.runIf(!hasCurl)('curl is not installed: its examples were skipped', () => {
  expect(hasCurl).toBe(false)
})
