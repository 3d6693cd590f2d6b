import { CLASSIC } from './classic.ts'
import type { Mutant } from './mutant.ts'
import { OWN } from './own.ts'

export { CLASSIC }

export const MUTANTS: readonly Mutant[] = [...CLASSIC, ...OWN]
