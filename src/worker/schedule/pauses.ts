/**
 * ms between tries to claim what a number of ids keeps waiting; doubled each time. A round that ends in this process is told,
 * and so is a place that another one leaves to us. So this is for what others give back while we have not waited long.
 */
const SHORTEST_PAUSE = 16
export const LONGEST_PAUSE = 200

export function pauseAfter(tries: number, longest: number): number {
  return Math.min(SHORTEST_PAUSE * 2 ** tries, longest)
}
