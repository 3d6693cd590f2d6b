import { constants } from 'node:os'
import { LockstepError } from '../index.ts'

/** Sent by Ctrl-C, by a time-out or a supervisor, and by a closing terminal. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The user pressed Ctrl-C, or the process received a signal to end. */
export class Interrupted extends LockstepError {
  readonly signal: NodeJS.Signals

  constructor(signal: NodeJS.Signals, message = 'interrupted', options?: ErrorOptions) {
    super('LOCKSTEP_INTERRUPTED', message, options)
    this.signal = signal
  }

  /** The same as that of a process killed by the signal. */
  get exitCode(): number {
    return 128 + constants.signals[this.signal]
  }
}

/** Calls `interrupt` at the first signal; a second one ends the process at once. Returns a function that stops listening. */
export function onInterruption(interrupt: (reason: Interrupted) => void): () => void {
  const hear = (signal: NodeJS.Signals) => {
    end()
    interrupt(new Interrupted(signal))
  }
  const end = () => SIGNALS.forEach((signal) => void process.off(signal, hear))
  for (const signal of SIGNALS) process.on(signal, hear)
  return end
}
