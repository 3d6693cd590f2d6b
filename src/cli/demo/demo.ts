import { Lockstep } from '../../index.ts'
import { type DemoDatabase, openDatabase } from './database.ts'
import type { DemoPage } from './page.ts'
import type { DemoProcess } from './process.ts'
import { report } from './report.ts'
import { DemoRun } from './run.ts'
import { createScreen } from './screen.ts'
import { QUEUE_SCHEMA } from './shop.ts'

export interface DemoOptions {
  /** Send the same feed through a plain pool without order. */
  readonly naive: boolean
  /** Serve the web page, on any free port of this machine, until a signal comes. */
  readonly web: boolean
  /** Print one JSON object and nothing else. */
  readonly json: boolean
  /** How many updates to send. Default 20,000. */
  readonly events?: number
}

const DEFAULT_EVENTS = 20_000
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const
type Signal = keyof typeof SIGNALS

/**
 * Shows on a live database what the queue promises, or what goes wrong without it. Resolves to the exit code: 0 if it
 * showed that, 1 if not, 128 + n after a signal. Leaves nothing behind.
 * @throws LockstepError if the database or the embedded server can't be used
 */
export async function runDemo({ naive, web, json, events = DEFAULT_EVENTS }: DemoOptions): Promise<number> {
  const screen = createScreen(json)
  const processes: DemoProcess[] = []
  const interruption = awaitSignal()
  const ended = new AbortController()
  let page: DemoPage | undefined
  const opening = openDatabase()
  const running = opening.then((database) => perform(database))
  try {
    const ending = await Promise.race([running, interruption.signal])
    if (typeof ending === 'string') return 128 + SIGNALS[ending]
    screen.close()
    const code = report(ending, json)
    if (page) {
      console.error(`\n${page.told}; Ctrl-C ends it`)
      await interruption.signal
    }
    return code
  } finally {
    ended.abort()
    screen.close()
    await page?.close()
    await Promise.all(processes.map((one) => one.kill()))
    // Work under way fails or ends soon. Wait for it, so that it creates nothing after the cleanup.
    await running.catch(() => {})
    await opening.then(
      (database) => database.close(),
      () => {},
    )
    interruption.ignore()
  }

  async function perform(database: DemoDatabase) {
    ended.signal.throwIfAborted()
    if (!naive) await migrate(database.connectionString)
    if (web) {
      const { openDemoPage } = await import('./page.ts')
      page = await openDemoPage(database.connectionString)
      screen.tell(page.told)
    }
    return new DemoRun({ database, naive, events, screen, processes, signal: ended.signal }).run()
  }
}

async function migrate(connectionString: string): Promise<void> {
  const lockstep = new Lockstep({ connectionString, schema: QUEUE_SCHEMA })
  try {
    await lockstep.migrate()
  } finally {
    await lockstep.close()
  }
}

/** The signal handlers stay until everything is cleaned up: a second Ctrl-C must not leave a server behind. */
function awaitSignal(): { signal: Promise<Signal>; ignore(): void } {
  const names = Object.keys(SIGNALS) as Signal[]
  let interrupt!: (signal: Signal) => void
  const signal = new Promise<Signal>((resolve) => {
    interrupt = resolve
  })
  for (const name of names) process.on(name, interrupt)
  return {
    signal,
    ignore: () => {
      for (const name of names) process.off(name, interrupt)
    },
  }
}
