import { onDuty } from './duty.ts'
import { sendFeed } from './producers.ts'

// The process of the outside system.
await onDuty(sendFeed)
