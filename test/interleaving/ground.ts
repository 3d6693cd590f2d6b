import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStore } from '../support/store-environment.ts'
import { Crew } from './crew.ts'
import { installGates } from './gates.ts'
import { SceneBuilder } from './scenes.ts'
import { installState } from './state.ts'
import { type Case, judge } from './verdict.ts'

const ALL = process.env.LOCKSTEP_INTERLEAVINGS === 'all'

/** ms */
const TIMEOUT = ALL ? 1_800_000 : 60_000

/** A database whose protocol can be stopped at every gate, with crews that play side by side. */
export interface Ground {
  readonly sceneBuilder: SceneBuilder
  readonly crews: readonly Crew[]
  close(): Promise<void>
}

/** `sessions` is the number per crew. */
export async function openGround(crews: number, sessions: number): Promise<Ground> {
  const env = await openStore()
  await installGates(env)
  await installState(env)
  const sceneBuilder = await SceneBuilder.open(env)
  const opened: Crew[] = []
  for (let crew = 0; crew < crews; crew += 1) opened.push(await Crew.open(env, sessions))
  return { sceneBuilder, crews: opened, close: () => env.close() }
}

/**
 * How far a case is played. By default: every schedule with one switch, and as many of those with two as there is room
 * for. LOCKSTEP_INTERLEAVINGS=all plays all schedules with up to three switches. That takes many minutes, and is for
 * changes of the protocol. Every mistake known so far shows with one or two switches.
 */
export function bounds(schedules: number) {
  return ALL ? { switches: 3, schedules: Number.POSITIVE_INFINITY } : { switches: 2, schedules }
}

interface Plan {
  readonly crews: number
  readonly sessions: number
  readonly schedules: number
  /** Fewer interleavings would mean that sessions no longer stop where they should. */
  readonly atLeast: number
}

/** One test per case, all on one ground. */
export function testEach(cases: readonly Case[], { crews, sessions, schedules, atLeast }: Plan): void {
  let ground: Ground
  beforeAll(async () => {
    ground = await openGround(crews, sessions)
  })
  afterAll(() => ground?.close())

  test.each(cases.map((one) => [one.title, one] as const))(
    '%s: each interleaving ends like one after the other',
    async (_title, one) => {
      const count = await judge(ground.sceneBuilder, ground.crews, one, bounds(schedules))
      expect(count).toBeGreaterThanOrEqual(atLeast)
    },
    TIMEOUT,
  )
}
