import type { Progress, Progression } from '../index.ts'
import { Interrupted, onInterruption } from './interruption.ts'
import { count, plural, write, writeJson } from './output.ts'
import { startProgress } from './progress.ts'

export interface Deed {
  readonly label: string
  /** The unit that is counted, in the singular: `job`, `payload`. */
  readonly noun: string
  /** Such as `deleted`. */
  readonly done: string
  readonly json: boolean | undefined
}

/** Runs long work until it is done or a signal ends it between two chunks. Shows a progress bar on a terminal. */
export async function follow(deed: Deed, begin: (signal: AbortSignal) => Progression): Promise<void> {
  const interruption = new AbortController()
  const endListening = onInterruption((reason) => interruption.abort(reason))
  const bar = startProgress({ label: deed.label, noun: `${deed.noun}s`, total: 0 })
  let last: Progress = { done: 0, total: 0 }
  try {
    for await (last of begin(interruption.signal)) bar.update(last.done, last.done, last.total)
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
    const done = `${count(last.done)} of ${plural(last.total, deed.noun)} ${deed.done}`
    throw new Interrupted(error.signal, `interrupted: ${done}`)
  } finally {
    bar.stop()
    endListening()
  }
  if (deed.json) writeJson(last)
  else write(`${plural(last.done, deed.noun)} ${deed.done}`)
}
