import type pg from 'pg'
import { expect } from 'vitest'
import type { Crew } from './crew.ts'
import type { Operation } from './operations.ts'
import type { Scene, SceneBuilder, Setting } from './scenes.ts'
import { type Bounds, explore } from './schedules.ts'
import { stateOf } from './state.ts'

/** Operations in a setting, to be played in every order of their steps. */
export interface Case {
  readonly title: string
  readonly setting: Setting
  readonly operations: readonly Operation[]
}

interface Ending {
  readonly steps: string[]
  /** The state, and the answer to each operation. */
  readonly outcome: string
}

/** Wrong even if no session interrupts another. */
const NEVER = /WRONG|fails: /

/** How many interleavings a failure shows. */
const SHOWN = 3

/**
 * Plays a case in every order of its steps. Each must end like one in which no session interrupts another. Returns the
 * number of interleavings.
 *
 * @throws AssertionError with schedules that ended otherwise
 */
export async function judge(
  sceneBuilder: SceneBuilder,
  crews: readonly Crew[],
  { setting, operations }: Case,
  bounds: Omit<Bounds, 'claimers'>,
): Promise<number> {
  const play = async (beginning: readonly number[], claimer: number) => {
    const scene = await sceneBuilder.set(setting)
    const parts = operations.map(({ act, end }) => ({
      work: (session: pg.Client) => act(scene, session),
      end,
    }))
    const { decisions, steps, answers } = await crews[claimer]!.play(parts, beginning)
    return { decisions, steps, outcome: await conclude(scene, operations, answers) }
  }
  const [serial, ...interleaved] = await explore<Ending>(play, { ...bounds, claimers: crews.length })
  const allowed = new Set(serial!.map(({ outcome }) => outcome))
  const all = [serial!, ...interleaved].flat()
  const wrong = all.filter(({ outcome }) => !allowed.has(outcome) || NEVER.test(outcome))
  refuse(wrong, all.length, allowed)
  return all.length - serial!.length
}

/**
 * Every transaction that was in the way is gone. So each operation that has to try again does so now, and once more
 * after the others have.
 */
async function conclude(scene: Scene, operations: readonly Operation[], answers: string[]): Promise<string> {
  for (const [place, operation] of [...operations.entries(), ...operations.entries()]) {
    if (operation.triedAgainAfter?.test(answers[place]!)) answers[place] = await alone(scene, operation)
  }
  const told = operations.map(({ name }, place) => `${name}: ${answers[place]}`)
  return [await stateOf(scene), ...told].join('\n')
}

/** Runs in a session that stops nowhere. */
function alone(scene: Scene, { act }: Operation): Promise<string> {
  return scene.testQueue.env.database.transaction((session) => act(scene, session as unknown as pg.Client))
}

function refuse(wrong: readonly Ending[], count: number, allowed: ReadonlySet<string>): void {
  if (wrong.length === 0) return
  const lines = [
    `${wrong.length} of ${count} interleavings end like none of the orders one after the other.`,
    ...wrong.slice(0, SHOWN).map(({ steps, outcome }) => `${steps.join(', ')}\n${outcome}`),
    'One after the other:',
    ...allowed,
  ]
  expect.fail(lines.join('\n\n'))
}
