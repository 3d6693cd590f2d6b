import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const queue = defineQueue('lost')
const LOST = {
  name: 'DatabaseError',
  code: 'LOCKSTEP_CONNECTION',
  message: expect.stringMatching(/; the session has ended, .*: start again on another connection$/),
  cause: expect.any(Error),
}

async function settingsOf(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT name FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`,
  )
  return rows.map(({ name }) => name)
}

const push = (tx: pg.ClientBase) => env.lockstep.enqueue(queue, { id: 'a' }, { tx })

describe('a push in a transaction whose session the server ended tells that, by its code', () => {
  test('at a time-out between two statements', async () => {
    const first = await env.session()
    for (const setting of await settingsOf(first)) {
      const tx = await env.session()
      const ended = new Promise((resolve) => tx.once('end', resolve))
      await tx.query(`BEGIN; SET LOCAL ${setting} = 20`)
      await ended
      await expect(push(tx), setting).rejects.toMatchObject(LOST)
    }
    expect(await env.jobs(queue)).toBe(0)
  })

  test('while it is under way, at a time-out or by hand', async () => {
    await env.lockstep.enqueue(queue, { id: 'a' })
    const holder = await env.session()
    await holder.query('BEGIN; SELECT FROM lockstep.jobs FOR UPDATE')
    const ends = (await settingsOf(holder)).includes('transaction_timeout') ? ['time-out', 'hand'] : ['hand']
    for (const end of ends) {
      const tx = await env.session()
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
      await tx.query(`BEGIN; ${end === 'time-out' ? 'SET LOCAL transaction_timeout = 300' : ''}`)
      const pushed = push(tx).catch((error) => error)
      if (end === 'hand') await env.sql('SELECT pg_terminate_backend($1)', [rows[0].pid])
      expect(await pushed, end).toMatchObject(LOST)
    }
    await holder.query('ROLLBACK')
  })
})

test('a push into a queue that was deleted says what to do, in a transaction and outside', async () => {
  const refusal = {
    code: 'LOCKSTEP_CONFLICT',
    message:
      'queue "gone" was deleted, or created after the transaction began; try again: if you passed a transaction, roll it back and repeat it from its beginning',
  }
  const gone = defineQueue('gone')
  await env.lockstep.enqueue(gone, { id: 'a' })
  const tx = await env.session()
  for (const options of [{}, { tx }]) {
    await env.lockstep.deleteQueue(gone, { withJobs: true })
    await tx.query('BEGIN')
    await expect(env.lockstep.enqueue(gone, { id: 'a' }, options)).rejects.toMatchObject(refusal)
    await tx.query('ROLLBACK')
    await env.lockstep.enqueue(gone, { id: 'a' })
  }
})
