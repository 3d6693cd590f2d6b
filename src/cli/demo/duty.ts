import { once } from 'node:events'

/** What a process of the demo is told when it starts. */
export interface Duty {
  readonly name: string
  readonly connectionString: string
  readonly naive: boolean
  /** How many updates to send. */
  readonly events: number
}

const VARIABLE = 'LOCKSTEP_DEMO_DUTY'

/** The environment of a process that is to do this: unlike arguments, it can't be read by other users. */
export function dutyEnvironment(duty: Duty): NodeJS.ProcessEnv {
  return { ...process.env, [VARIABLE]: JSON.stringify(duty) }
}

/** Does its duty until it is done, or the process is told to stop. The process ends by itself afterwards. */
export async function onDuty(work: (duty: Duty, stop: Promise<unknown>) => Promise<void>): Promise<void> {
  // Ctrl-C reaches all processes of a terminal: the main one decides.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
  // Nobody may be left working when the main one is gone, however it went.
  const orphaned = () => process.exit(1)
  process.once('disconnect', orphaned)
  await work(JSON.parse(process.env[VARIABLE]!), once(process, 'message'))
  process.off('disconnect', orphaned)
  if (process.connected) process.disconnect()
}
