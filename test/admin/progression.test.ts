import { expect, test } from 'vitest'
import { type Progress, Progression } from '../../src/admin/progression.ts'

function counting(total: number, failAt?: number) {
  const state = { started: false, stopped: false, steps: 0 }
  const progression = new Progression(
    (async function* () {
      state.started = true
      try {
        for (let done = 0; done <= total; done += 1) {
          if (done === failAt) throw new Error('broken')
          state.steps += 1
          yield { done, total }
        }
      } finally {
        state.stopped = true
      }
    })(),
  )
  return { progression, state }
}

async function all(progression: Progression): Promise<Progress[]> {
  const seen: Progress[] = []
  for await (const progress of progression) seen.push(progress)
  return seen
}

test('R11 progress: awaiting runs to the end and gives the last', async () => {
  expect(await counting(3).progression).toEqual({ done: 3, total: 3 })
})

test('R11 progress: iterating gives every step', async () => {
  const dones = (await all(counting(2).progression)).map(({ done }) => done)
  expect(dones).toEqual([0, 1, 2])
})

test('R11 progress: nothing starts before it is consumed, and it runs once', async () => {
  const { progression, state } = counting(2)
  await Promise.resolve()
  expect(state.started).toBe(false)
  await all(progression)
  expect(await progression).toEqual({ done: 2, total: 2 })
  expect(await progression).toEqual({ done: 2, total: 2 })
  expect(await all(progression)).toEqual([])
  expect(state.steps).toBe(3)
})

test('R11 progress: leaving the loop stops the work', async () => {
  const { progression, state } = counting(5)
  for await (const { done } of progression) if (done === 1) break
  expect(state).toEqual({ started: true, stopped: true, steps: 2 })
  expect(await progression).toEqual({ done: 1, total: 5 })
})

test('R11 progress: a failure reaches everybody who consumes it', async () => {
  const { progression } = counting(5, 2)
  await expect(all(progression)).rejects.toThrow('broken')
  await expect(progression).rejects.toThrow('broken')
  await expect(all(progression)).rejects.toThrow('broken')
})

test('R11 progress: a caller may catch a failure, and tidy up, as with a promise', async () => {
  const tidied: string[] = []
  const tidy = (what: string) => () => {
    tidied.push(what)
  }
  expect(await counting(2).progression.finally(tidy('after the end'))).toEqual({ done: 2, total: 2 })
  await expect(counting(5, 2).progression.finally(tidy('after a failure'))).rejects.toThrow('broken')
  expect(await counting(5, 2).progression.catch((error: Error) => error.message)).toBe('broken')
  expect(await counting(2).progression.catch(() => 'not called')).toEqual({ done: 2, total: 2 })
  expect(tidied).toEqual(['after the end', 'after a failure'])
})
