export const LEAST_WEIGHT = 0.001
export const MOST_WEIGHT = 1_000

/** At greater distances, floating-point numbers could no longer add up the turns. */
export function isWeight(weight: unknown): weight is number {
  return typeof weight === 'number' && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT
}
