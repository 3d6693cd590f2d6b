import { once } from 'node:events'

/** The instructions that a process of the demo starts with. */
export interface Duty {
  readonly name: string
  readonly connectionString: string
  readonly naive: boolean
  /** How many updates to send. */
  readonly events: number
}

const VARIABLE = 'LOCKSTEP_DEMO_DUTY'

/** Passes the duty in the environment: unlike arguments, other users can't read it. */
export function dutyEnvironment(duty: Duty): NodeJS.ProcessEnv {
  return { ...process.env, [VARIABLE]: JSON.stringify(duty) }
}

/** Runs `work` until it is done or the process is told to stop. The process then ends by itself. */
export async function onDuty(work: (duty: Duty, stop: Promise<unknown>) => Promise<void>): Promise<void> {
  // Ctrl-C reaches all processes of a terminal; only the main one reacts.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
  // No process may go on when the main one is gone, however it ended.
  const orphaned = () => process.exit(1)
  process.once('disconnect', orphaned)
  await work(JSON.parse(process.env[VARIABLE]!), once(process, 'message'))
  process.off('disconnect', orphaned)
  if (process.connected) process.disconnect()
}
