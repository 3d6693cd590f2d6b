import { setTimeout as sleep } from 'node:timers/promises'
import { test, vi } from 'vitest'
import { Connection, Diary, drained, Ground, LEASE, perhapsLeaving } from '../faults.ts'
import { send } from './wire.ts'

vi.setConfig({ testTimeout: 300_000 })

const TRIES = 4
const QUEUE = '/api/ns/faults'

class Client {
  readonly #connection: Connection
  readonly #diary: Diary

  constructor(connection: Connection, diary: Diary) {
    this.#connection = connection
    this.#diary = diary
  }

  async produce(): Promise<void> {
    const answer = await this.#connection.call('PUT', `${QUEUE}?tries=${TRIES}&ttl=0`, { body: 'x' })
    if (answer?.status === 201) this.#diary.published.add(answer.json.job_id)
    else await sleep(20)
  }

  /** Acknowledges most jobs, forgets some, and sometimes goes away while it waits. */
  async consume(): Promise<void> {
    const askedAt = performance.now()
    const answer = await perhapsLeaving(this.#diary, (signal) =>
      this.#connection.call('GET', `${QUEUE}?ttr=${LEASE}&timeout=1`, { signal }),
    )
    if (answer?.status !== 200) return
    const delivery = this.#diary.delivered(answer.json.job_id, askedAt)
    if (Math.random() < 0.1) return
    await sleep(Math.random() * 20)
    delivery.to = Math.min(delivery.to, performance.now())
    const acknowledged = await this.#connection.call('DELETE', `${QUEUE}/job/${delivery.id}`)
    const now = performance.now()
    if (acknowledged?.status === 204 && now < askedAt + LEASE * 1000) this.#diary.done.set(delivery.id, now)
  }

  /** Resolves to how many it has got, if it was answered. */
  async take(): Promise<number | undefined> {
    const askedAt = performance.now()
    const answer = await this.#connection.call('GET', `${QUEUE}?ttr=${LEASE}&timeout=1&count=20`)
    if (answer?.status === 404) return 0
    if (answer?.status !== 200) return undefined
    for (const { job_id } of answer.json) {
      this.#diary.delivered(job_id, askedAt)
      await this.#connection.call('DELETE', `${QUEUE}/job/${job_id}`)
    }
    return answer.json.length
  }
}

test('two gateways, either killed again and again, and a database that restarts: nothing lost, nothing twice', async () => {
  const ground = await Ground.open()
  const diary = new Diary()
  const { json } = await send(ground.adminPorts[0]!, 'POST', '/token/ns?description=x')
  const connections: Connection[] = []
  const clientOf = () => {
    const connection = new Connection(ground.ports, { 'x-token': json.token })
    connections.push(connection)
    return new Client(connection, diary)
  }
  await ground.run(clientOf)
  const last = clientOf()
  await drained(() => last.take())
  const dead = await ground.deadIn('ns/faults')
  for (const connection of connections) connection.close()
  await ground.close()
  diary.judge(dead, TRIES)
  diary.expectMuch()
})
