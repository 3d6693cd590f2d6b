import { MultiBar } from 'cli-progress'
import pc from 'picocolors'
import { count } from '../output.ts'

export interface Progress {
  readonly sent: number
  readonly applied: number
  readonly total: number
}

/** Shows progress while the demo runs; results go to stdout. */
export interface Screen {
  /** Prints a line. */
  tell(line: string): void
  show(progress: Progress): void
  close(): void
}

/** ms between progress lines, on an output that can't be redrawn. */
const LINE_EVERY = 3_000

/** Uses stderr, so that stdout can be piped. */
export function createScreen(json: boolean): Screen {
  if (json) return { tell() {}, show() {}, close() {} }
  return process.stderr.isTTY ? new BarScreen() : new LineScreen()
}

class LineScreen implements Screen {
  #next = 0

  tell(line: string): void {
    console.error(line)
  }

  show({ sent, applied, total }: Progress): void {
    const now = performance.now()
    if (now < this.#next) return
    this.#next = now + LINE_EVERY
    console.error(`  sent ${count(sent)} of ${count(total)}, applied ${count(applied)}`)
  }

  close(): void {}
}

class BarScreen implements Screen {
  readonly #bars = new MultiBar({
    format: `  ${pc.cyan('{bar}')} sent {sent} of {total_}, applied {applied}`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    hideCursor: true,
    clearOnComplete: true,
    // The demo handles signals itself.
    gracefulExit: false,
  } as ConstructorParameters<typeof MultiBar>[0])
  #bar: ReturnType<MultiBar['create']> | undefined

  tell(line: string): void {
    if (this.#bar) this.#bars.log(`${line}\n`)
    else console.error(line)
  }

  show({ sent, applied, total }: Progress): void {
    const words = { sent: count(sent), applied: count(applied), total_: count(total) }
    this.#bar ??= this.#bars.create(total, 0, words)
    this.#bar.update(applied, words)
  }

  close(): void {
    if (this.#bar) this.#bars.stop()
    this.#bar = undefined
  }
}
