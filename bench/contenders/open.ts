import type { Contender, Open, Setting } from '../contender.ts'
import { BARE, LOCKSTEP, type Name } from '../entrants.ts'
import { openBare } from './bare.ts'
import { openLockstep } from './lockstep.ts'

/** Loads peers by name, because this package does not include theirs. */
export async function open(name: Name, setting: Setting): Promise<Contender> {
  if (name === LOCKSTEP) return openLockstep(setting)
  if (name === BARE) return openBare(setting)
  const [module] = name.split(' ')
  const peer = (await import(new URL(`../peers/${module}.ts`, import.meta.url).href)) as { open: Open }
  return peer.open(setting)
}
