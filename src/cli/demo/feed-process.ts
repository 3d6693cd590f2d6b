import { onDuty } from './duty.ts'
import { sendFeed } from './producers.ts'

// The process that plays the outside system.
await onDuty(sendFeed)
