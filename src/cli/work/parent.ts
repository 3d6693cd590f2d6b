import type { Worker } from '../../index.ts'
import type { FromChild, HealthQuestion } from './all-health.ts'

/** In a child: tells the parent how the worker is whenever that asks. */
export function answerParent(worker: Worker): void {
  if (!process.send) return
  process.on('message', ({ kind, number }: HealthQuestion) => {
    if (kind === 'health') tell({ kind, number, health: worker.health() })
  })
}

/** In a child: someone asked it to stop, so that the parent starts no other in its place. */
export function tellDismissed(): void {
  tell({ kind: 'dismissed' })
}

/** The parent may have just ended. */
function tell(message: FromChild): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}
