import { describe } from 'vitest'
import { testEach } from './ground.ts'
import * as the from './operations.ts'
import type { Setting } from './scenes.ts'
import type { Case } from './verdict.ts'

const waiting: Setting = { name: 'waiting', job: 'waiting' }
const inWork: Setting = { name: 'in work', job: 'in work' }
const pushedAgain: Setting = { name: 'in work and pushed again', job: 'in work', next: true }
const left: Setting = { name: 'left', job: 'left' }
const mortalPushedAgain: Setting = {
  name: 'in work by a process that may die, pushed again',
  job: 'in work',
  next: true,
  mortal: true,
}
const mortalWaiting: Setting = {
  name: 'waiting, before a process that may die',
  job: 'waiting',
  mortal: true,
}
const mortal: Setting = { name: 'in work by a process that may die', job: 'in work', mortal: true }

const { claim, complete, pushNew, pushEqual, renew, removal } = the

function of(title: string, setting: Setting, ...operations: the.Operation[]): Case {
  return { title, setting, operations }
}

describe('three sessions', () => {
  const cases = [
    of('P3 P7 a claim, a completion and a push', inWork, claim, complete, pushNew),
    of('P3 P7 a claim, a handler’s completion and a push', inWork, claim, the.completeWaiting, pushNew),
    of('P4 P7 a claim, a completion and a push rolled back', inWork, claim, complete, the.pushInVain),
    of('P5 an equal payload pushed beside a completion and a claim', inWork, pushEqual, complete, claim),
    of('P5 an equal payload pushed beside a death and a claim', inWork, pushEqual, the.die, claim),
    of('P5 an equal payload pushed beside a discard and a claim', inWork, pushEqual, the.discard, claim),
    of('P5 two pushes beside a completion', inWork, pushNew, pushEqual, complete),
    of('P3 a fence drawn while others claim, push and complete', waiting, claim, the.round, pushNew),
    of('P6 two rescues and a late completion', left, claim, the.otherClaim, complete),
    of(
      'P6 a completion, the process’s next claim, and the completion sent again',
      pushedAgain,
      complete,
      the.nextClaim,
      the.completeAgain,
    ),
    of('P6 a rescue, a push and a late completion', left, claim, pushEqual, complete),
    of('R11 a rescue, a late failure and a delete', left, claim, the.fail, the.remove),
    of(
      'R11 a delete of what waits behind a round, its completion and a push',
      pushedAgain,
      the.remove,
      complete,
      pushEqual,
    ),
    of(
      'R11 a kill of what waits behind a round, its death and a push',
      pushedAgain,
      the.kill,
      the.die,
      pushNew,
    ),
    of(
      'R11 a perform now behind a round, its completion and a claim',
      pushedAgain,
      the.performNow,
      complete,
      claim,
    ),
  ]
  testEach(cases, { crews: 3, sessions: 3, schedules: 60, atLeast: 20 })
})

// The shard's former process has a batch in progress and a claim under way. The process that has the shard now claims
// from it.
describe('a shard that changes hands while its batches run', () => {
  const { release, fail, die, nextClaim, otherClaim, claimWaiting } = the
  const cases = [
    of('P1 P2 what is released, and claims of both', inWork, release, claim, nextClaim),
    of(
      'P1 P2 what was pushed meanwhile is released, and claims of both',
      pushedAgain,
      release,
      claim,
      nextClaim,
    ),
    of('P1 P2 a failure, a claim of who has it now, and a push', inWork, fail, claim, pushNew),
    of('P1 P5 a death, a claim of who has it now, and an equal push', pushedAgain, die, claim, pushEqual),
    of('P1 P2 a completion, and claims of both', pushedAgain, complete, claim, nextClaim),
    of('P1 two who have had it since, and what is released', pushedAgain, release, claim, otherClaim),
    of(
      'P1 what is released, a claim that waits, and a claim of the former',
      inWork,
      release,
      claimWaiting,
      nextClaim,
    ),
    of(
      'P1 P6 the former’s failure sent late, beside a rescue and its own next claim',
      left,
      fail,
      claim,
      otherClaim,
    ),
  ]
  testEach(cases, { crews: 3, sessions: 3, schedules: 60, atLeast: 10 })
})

describe('the ends of processes', () => {
  const cases = [
    of('P1 a rescue, a renewal under way and a removal', mortal, claim, renew, removal),
    of('P1 a delete, a renewal under way and a removal', mortal, the.remove, renew, removal),
    of(
      'P1 R11 a delete behind a round, a rescue and a removal',
      mortalPushedAgain,
      the.remove,
      claim,
      removal,
    ),
    of(
      'P1 R11 a kill behind a round, a renewal under way and a removal',
      mortalPushedAgain,
      the.kill,
      renew,
      removal,
    ),
    of(
      'P1 a rescue, a claim of the process itself and its removal',
      mortalPushedAgain,
      claim,
      the.nextClaim,
      removal,
    ),
    of('P1 P6 a late completion, a rescue and a removal', mortal, complete, claim, removal),
    of('P1 a claim, the removal of its process, and a rescue', mortalWaiting, the.nextClaim, removal, claim),
    of('P1 two removals and a renewal', mortal, removal, { ...removal, name: 'another removal' }, renew),
    of('R11 a kill, a claim and a removal', mortal, the.kill, claim, removal),
  ]
  testEach(cases, { crews: 3, sessions: 3, schedules: 60, atLeast: 10 })
})
