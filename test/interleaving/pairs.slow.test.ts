import { describe } from 'vitest'
import { testEach } from './ground.ts'
import { FIRST_PUSHES, PAIRS } from './pairs.ts'

describe('two operations', () => {
  testEach(PAIRS, { crews: 3, sessions: 2, schedules: 14, atLeast: 4 })
})

describe('two pushes, one of which is the first', () => {
  testEach(FIRST_PUSHES, { crews: 3, sessions: 2, schedules: 14, atLeast: 2 })
})
