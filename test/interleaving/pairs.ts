import * as the from './operations.ts'
import type { Setting } from './scenes.ts'
import type { Case } from './verdict.ts'

/** Each of `ones` against each of `others` in each of these settings. */
interface Row {
  readonly promises: string
  readonly settings: readonly Setting[]
  readonly ones: readonly the.Operation[]
  /** Default: `ones`, each pair once. */
  readonly others?: readonly the.Operation[]
}

const nothing: Setting = { name: 'an id nobody has pushed' }
const waiting: Setting = { name: 'a waiting id', job: 'waiting' }
const inWork: Setting = { name: 'an id in work', job: 'in work' }
const pushedAgain: Setting = { name: 'an id in work and pushed again', job: 'in work', next: true }
const mortal: Setting = { name: 'an id of a process that may die', job: 'in work', mortal: true }
const left: Setting = { name: 'an id of a dead process', job: 'left' }
const leftPushedAgain: Setting = { name: 'an id of a dead process, pushed again', job: 'left', next: true }
const dead: Setting = { name: 'a dead id', dead: true }
const deadWaiting: Setting = { name: 'a waiting id with dead payloads', job: 'waiting', dead: true }
const deadInWork: Setting = { name: 'an id in work with dead payloads', job: 'in work', dead: true }
const deadLeft: Setting = { name: 'an id of a dead process with dead payloads', job: 'left', dead: true }
const stray: Setting = { name: 'a waiting id in a shard that went', job: 'waiting', stray: true }
const strayInWork: Setting = { name: 'an id in work in a shard that went', job: 'in work', stray: true }

const somePushes = [the.pushNew, the.pushEqual, the.pushInVain]
const pushes = [...somePushes, the.pushEqualLower]
const claims = [the.claim, the.otherClaim]
const ends = [the.complete, the.fail, the.die, the.discard, the.snooze, the.release]
const allEnds = [the.completeWaiting, ...ends]
const acts = [the.performNow, the.remove, the.kill]

const ROWS: readonly Row[] = [
  { promises: 'P3 P4', settings: [waiting, inWork], ones: pushes },
  { promises: 'P3', settings: [nothing, waiting, leftPushedAgain], ones: pushes, others: [the.claim] },
  { promises: 'P3 P5', settings: [inWork, pushedAgain], ones: somePushes, others: allEnds },
  { promises: 'P1', settings: [nothing, waiting, inWork, left], ones: claims },
  { promises: 'P1', settings: [inWork, pushedAgain], ones: [the.claim], others: allEnds },
  { promises: 'P3', settings: [nothing, waiting, leftPushedAgain], ones: pushes, others: [the.claimWaiting] },
  {
    promises: 'P1 P6',
    settings: [inWork, pushedAgain, leftPushedAgain],
    ones: [the.claimWaiting],
    others: allEnds,
  },
  { promises: 'P1', settings: [waiting, left], ones: [the.claimWaiting], others: [the.otherClaim, ...acts] },
  {
    promises: 'P1 P6',
    settings: [mortal],
    ones: [the.claimWaiting],
    others: [the.renew, the.leave, the.removal],
  },
  { promises: 'P1 P6', settings: [left, leftPushedAgain], ones: [the.claim], others: allEnds },
  { promises: 'P6', settings: [left], ones: acts, others: ends },
  { promises: 'P3 R11', settings: [waiting, left], ones: acts, others: somePushes },
  { promises: 'P1 R11', settings: [waiting, left, leftPushedAgain], ones: acts, others: [the.claim] },
  { promises: 'R11', settings: [inWork, pushedAgain], ones: acts, others: allEnds },
  { promises: 'P3 P5 R11', settings: [pushedAgain], ones: acts, others: somePushes },
  { promises: 'P1 R11', settings: [pushedAgain], ones: acts, others: [the.claim] },
  { promises: 'R11', settings: [waiting, left, pushedAgain, leftPushedAgain], ones: acts },
  { promises: 'P3 R5', settings: [dead, deadWaiting, deadInWork], ones: [the.requeue], others: somePushes },
  { promises: 'P1 R5', settings: [dead, deadWaiting, deadLeft], ones: [the.requeue], others: [the.claim] },
  { promises: 'P5 R5', settings: [deadInWork, deadLeft], ones: [the.requeue], others: allEnds },
  { promises: 'R5 R11', settings: [deadWaiting, deadInWork, deadLeft], ones: [the.requeue], others: acts },
  { promises: 'R5', settings: [dead, deadWaiting, deadInWork], ones: [the.requeue, the.deleteFromMorgue] },
  {
    promises: 'R7 R11',
    settings: [deadInWork],
    ones: [the.deleteFromMorgue],
    others: [the.die, the.discard],
  },
  { promises: 'R11', settings: [deadWaiting], ones: [the.deleteFromMorgue], others: [the.kill] },
  {
    promises: 'P1 P3',
    settings: [stray],
    ones: [the.reshard],
    others: [...somePushes, the.claim, the.claimInOldShard, ...acts, the.reshard],
  },
  { promises: 'P1 P3', settings: [strayInWork], ones: [the.reshard], others: [...somePushes, ...allEnds] },
  {
    promises: 'P1 P6',
    settings: [mortal],
    ones: [the.claim, ...acts],
    others: [the.renew, the.leave, the.removal],
  },
  { promises: 'P1 P6', settings: [mortal], ones: [the.removal], others: [the.renew, the.leave, the.removal] },
]

export const PAIRS: readonly Case[] = ROWS.flatMap(casesOf)

/** The first push of an id is a single statement. */
export const FIRST_PUSHES: readonly Case[] = casesOf({ promises: 'P3 P4', settings: [nothing], ones: pushes })

function casesOf({ promises, settings, ones, others }: Row): Case[] {
  return settings.flatMap((setting) =>
    ones.flatMap((one, place) =>
      (others ?? ones.slice(place)).map((other) => ({
        title: `${promises} ${one.name} against ${other.name} of ${setting.name}`,
        setting,
        operations: [one, other],
      })),
    ),
  )
}
