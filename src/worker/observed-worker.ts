import type { ObservedWorker } from '../instrumentation.ts'
import type { Membership } from './membership/membership.ts'
import type { WorkerSettings } from './options.ts'
import type { InFlight } from './performing/in-flight.ts'
import type { Timetable } from './schedule/timetable.ts'

/** A worker as instruments see it, at any time. */
export function observedWorker(
  { queues, slots }: WorkerSettings,
  membership: Membership,
  inFlight: InFlight,
  timetable: Timetable,
): ObservedWorker {
  return {
    queues: queues.map(({ name }) => name),
    slots,
    get processId() {
      return membership.processId
    },
    get running() {
      return inFlight.count
    },
    get shards() {
      return timetable.size
    },
  }
}
