import { setTimeout as sleep } from 'node:timers/promises'
import type { Watcher } from '../contender.ts'

/** A watcher for handlers that take `ms`, waiting for something. */
export function lasting(ms: number, watcher: Watcher): Watcher {
  return {
    async starts(updates) {
      await watcher.starts(updates)
      await sleep(ms)
    },
    ends: (updates) => watcher.ends(updates),
  }
}

/** A watcher for handlers that fail, as in an outage of what they need. */
export function failing(watcher: Watcher): Watcher {
  return {
    async starts(updates) {
      await watcher.starts(updates)
      watcher.ends(updates)
      throw new Error('what the handler needs is out')
    },
    ends() {},
  }
}
