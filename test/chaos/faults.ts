import type { Fault } from './fault.ts'
import { applicationFaults } from './faults/application.ts'
import { commitFaults } from './faults/commit.ts'
import { networkFaults } from './faults/network.ts'
import { processFaults } from './faults/process.ts'
import { queueFaults } from './faults/queue.ts'
import { releaseFaults } from './faults/release.ts'
import { serverFaults } from './faults/server.ts'
import { tenantFaults } from './faults/tenant.ts'

/** All faults that are possible on this machine. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  ...networkFaults,
  ...serverFaults,
  ...queueFaults,
  ...releaseFaults,
  ...applicationFaults,
  ...tenantFaults,
  ...commitFaults,
].filter(({ possible }) => possible?.() ?? true)
