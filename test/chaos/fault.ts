import type { Chance } from './chance.ts'
import type { Field } from './field.ts'

/** Something that goes wrong in a field, and is over when `inject` resolves; what it broke may still be down then. */
export interface Fault {
  readonly name: string
  /** How often it is drawn, compared with others. */
  readonly weight: number
  /** Whether this machine has what it takes. Default: it has. */
  possible?(): boolean
  inject(field: Field, chance: Chance): Promise<void>
}
