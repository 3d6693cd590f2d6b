import type { ServerClock } from '../../src/worker/schedule/server-clock.ts'

/** As if the server had answered at once that it is `micros` now. */
export function setClock(clock: ServerClock, micros: number): void {
  clock.compare({ began: micros, ended: micros }, performance.now(), performance.now())
}
