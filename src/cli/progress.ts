import cliProgress from 'cli-progress'
import { colorsFor, count, duration } from './output.ts'

/** A progress bar on stderr if that is a terminal; silent otherwise. */
export interface Progress {
  /** The bar shows `part` of `total`; `done` is the number beside it. */
  update(part: number, done: number, total?: number): void
  stop(): void
}

const SILENT: Progress = { update() {}, stop() {} }

export interface ProgressOptions {
  readonly label: string
  /** The unit that is counted, such as `rows`. */
  readonly noun: string
  /** Undefined if the total is unknown. */
  readonly total: number | undefined
}

export function startProgress({ label, noun, total }: ProgressOptions): Progress {
  if (!process.stderr.isTTY) return SILENT
  const started = performance.now()
  let done = 0
  const { cyan, dim } = colorsFor(process.stderr)
  const bar = new cliProgress.SingleBar({
    stream: process.stderr,
    hideCursor: true,
    gracefulExit: false,
    format: (_, { progress, value, total: whole }) => {
      const elapsed = performance.now() - started
      const rate = `${count(done)} ${noun}, ${count(Math.round((done * 1000) / Math.max(elapsed, 1)))}/s`
      if (!(whole > 0)) return `${label}  ${rate}`
      const left = progress > 0 ? duration((elapsed * (whole - value)) / value) : '?'
      const filled = Math.round(Math.min(progress, 1) * 30)
      const drawn = `${cyan('█'.repeat(filled))}${dim('░'.repeat(30 - filled))}`
      return `${label} ${drawn} ${Math.floor(progress * 100)}%  ${rate}, ${left} left`
    },
  })
  bar.start(total ?? 0, 0)
  return {
    update(part, counted, whole) {
      done = counted
      if (whole !== undefined) bar.setTotal(whole)
      bar.update(part)
    },
    stop: () => bar.stop(),
  }
}
