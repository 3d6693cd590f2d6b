import { onDuty } from './duty.ts'
import { serveNaive } from './naive.ts'
import { serveOrdered } from './ordered.ts'

// One worker process of the demo.
await onDuty((duty, stop) => (duty.naive ? serveNaive(duty, stop) : serveOrdered(duty, stop)))
