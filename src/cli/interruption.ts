import { constants } from 'node:os'
import { LockstepError } from '../index.ts'

/** What ends a command from outside: Ctrl-C, a time-out or a supervisor, a terminal that is closed. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Somebody pressed Ctrl-C, or sent the process a signal to end. */
export class Interrupted extends LockstepError {
  readonly signal: NodeJS.Signals

  constructor(signal: NodeJS.Signals, message = 'interrupted', options?: ErrorOptions) {
    super('LOCKSTEP_INTERRUPTED', message, options)
    this.signal = signal
  }

  /** As of a process that the signal ended. */
  get exitCode(): number {
    return 128 + constants.signals[this.signal]
  }
}

/** Lets long work end in its own way at the first signal; returns what ends that. A second signal ends the process at once. */
export function onInterruption(interrupt: (reason: Interrupted) => void): () => void {
  const hear = (signal: NodeJS.Signals) => {
    end()
    interrupt(new Interrupted(signal))
  }
  const end = () => SIGNALS.forEach((signal) => void process.off(signal, hear))
  for (const signal of SIGNALS) process.on(signal, hear)
  return end
}
