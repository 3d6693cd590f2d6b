import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registerProcess, renewLeases } from '../../src/store/process.ts'
import { type Board, openStage, Player, type Stage } from '../support/rounds.ts'

const LEASE = 600

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

/** A process that serves the board's queue, has its job in work, and by the server's clock should have renewed its lease. */
async function claimant(board: Board, lease: number): Promise<Player> {
  const info = { host: 'here', pid: 1, version: '0', slots: 1, queues: [board.queue.name] }
  const player = new Player(
    board,
    await registerProcess(stage.database.pool, 'lockstep', info, lease),
    stage.database,
  )
  await board.push({ id: 'a' })
  await player.take()
  await stage.query(
    `UPDATE lockstep.processes SET expires_at = clock_timestamp() - interval '1 hour' WHERE process_id = $1`,
    [player.processId],
  )
  return player
}

describe('P1 R11 where no worker runs', () => {
  test.each(['delete', 'kill'] as const)(
    '%s takes what a dead process left, after its lease',
    async (action) => {
      const board = await stage.queue()
      const dead = await claimant(board, LEASE)
      expect(await stage.lockstep.processes()).toContainEqual(
        expect.objectContaining({ processId: dead.processId, overdue: true, working: 1 }),
      )
      const startedAt = performance.now()
      expect(await stage.lockstep[action](board.queue, {})).toEqual({ done: 1, total: 1 })
      expect(performance.now() - startedAt).toBeGreaterThan(LEASE)
      expect(await board.countJobs()).toBe(0)
    },
  )

  test('a queue that a dead process served can be deleted, after its lease', async () => {
    const board = await stage.queue()
    await claimant(board, LEASE)
    await stage.lockstep.deleteQueue(board.queue, { withJobs: true })
    expect((await stage.lockstep.stats()).queues.map(({ queue }) => queue)).not.toContain(board.queue.name)
  })

  test('what a process has in work that only seems dead is left alone', async () => {
    const board = await stage.queue()
    const player = await claimant(board, LEASE)
    const deleting = stage.lockstep.delete(board.queue, {})
    const renewing = setInterval(
      () => void renewLeases(stage.database.pool, 'lockstep', [player.processId], LEASE),
      LEASE / 4,
    )
    expect(await deleting).toEqual({ done: 0, total: 0 })
    clearInterval(renewing)
    expect(await board.job('a')).toMatchObject({ claimed_by: player.processId })
  })

  test('the wait ends with its signal, and a longer lease is not waited for', async () => {
    const board = await stage.queue()
    await claimant(board, 20_000)
    const deleting = stage.lockstep.delete(board.queue, {}, { signal: AbortSignal.timeout(200) })
    await expect(deleting).rejects.toThrow(/timeout/)
    const other = await stage.queue()
    await claimant(other, 3_600_000)
    expect(await stage.lockstep.delete(other.queue, {})).toEqual({ done: 0, total: 0 })
  })
})
