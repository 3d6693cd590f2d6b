/**
 * Seconds until the next try after failure number `retryCount` (0 after the first): n⁴ + 15 + random(0..29)·(n + 1),
 * the formula of Sidekiq. 25 retries take about three weeks.
 */
export function defaultRetryIn(retryCount: number): number {
  return retryCount ** 4 + 15 + Math.floor(Math.random() * 30) * (retryCount + 1)
}
