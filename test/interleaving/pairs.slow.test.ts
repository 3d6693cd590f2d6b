import { testEach } from './ground.ts'
import { PAIRS } from './pairs.ts'

testEach(PAIRS, { crews: 3, sessions: 2, schedules: 14, atLeast: 4 })
