import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const START_DEADLINE = 60_000
const STOP_DEADLINE = 60_000
/** How many characters of stderr to keep. */
const LAST_WORDS = 2_000

interface Message {
  readonly event: string
}

/**
 * A process of the cluster. It is forked from a module, gets its options as a message, and sends one when it is ready.
 */
export class Child<Options extends object> {
  readonly name: string
  readonly startedAt = process.hrtime.bigint()
  /** ns of the clock that all processes share; undefined while it lives. */
  endedAt: bigint | undefined
  readonly ended: Promise<void>
  /** The end of its stderr, if an uncaught error ended it after it had been ready. */
  failure: string | undefined
  readonly #process: ChildProcess
  #isReady = false
  #lastWords = ''

  constructor(name: string, module: URL, options: Options, execArgv: readonly string[] = []) {
    this.name = name
    this.#process = fork(module, [], {
      execArgv: ['--import', 'tsx', ...execArgv],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#process.stderr!.on('data', (words) => {
      this.#lastWords = (this.#lastWords + words).slice(-LAST_WORDS)
    })
    this.#process.on('exit', () => {
      this.endedAt = process.hrtime.bigint()
    })
    // By then, all its output has been read.
    this.ended = once(this.#process, 'close').then(([code]) => {
      // A process that starts while the server is down also ends with an error, and is started again.
      const failed = code || this.#lastWords.includes('heap out of memory')
      if (this.#isReady && failed) this.failure = this.#lastWords.trim() || `exit code ${code}`
    })
    this.#process.on('error', () => {})
    this.#process.send(options, () => {})
  }

  get alive(): boolean {
    return this.endedAt === undefined
  }

  /** Resolves when the process says that it is ready; rejects if it ends before. */
  async ready(): Promise<this> {
    const signal = AbortSignal.timeout(START_DEADLINE)
    const ready = async () => {
      for (;;) {
        const [message] = (await once(this.#process, 'message', { signal })) as [Message]
        if (message.event !== 'ready') continue
        this.#isReady = true
        return
      }
    }
    const ended = this.ended.then(() => {
      throw new Error(`${this.name} ended before it was ready`)
    })
    await Promise.race([ready(), ended])
    return this
  }

  /** Passes on all its messages. */
  hear<Said>(listener: (message: Said) => void): void {
    this.#process.on('message', (message) => listener(message as Said))
  }

  tell(message: unknown): void {
    if (this.alive && this.#process.connected) this.#process.send(message as object, () => {})
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.ended
  }

  /** Resolves when it has ended by itself; rejects if it does not. */
  async stop(): Promise<void> {
    this.tell('stop')
    const deadline = new AbortController()
    const late = sleep(STOP_DEADLINE, undefined, { signal: deadline.signal, ref: false }).then(
      () => {
        throw new Error(`${this.name} was told to stop, and goes on after ${STOP_DEADLINE} ms`)
      },
      () => {},
    )
    await Promise.race([this.ended, late])
    deadline.abort()
  }
}
