/**
 * Seconds until the next try; n is `retryCount`, 0 after the first failure: n⁴ + 15 + random(0..29)·(n + 1),
 * which is Sidekiq's formula. 25 retries take about three weeks.
 */
export function defaultRetryIn(retryCount: number): number {
  return retryCount ** 4 + 15 + Math.floor(Math.random() * 30) * (retryCount + 1)
}
