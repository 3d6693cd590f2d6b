import { count, rate } from './amounts.tsx'

/** Rounds that ended in a span of time. */
export interface Bar {
  readonly from: Date
  readonly processed: number
  readonly failed: number
}

interface ChartProps {
  readonly bars: readonly Bar[]
  /** s that a bar covers. */
  readonly seconds: number
  readonly title: string
}

/** px. Across, all is in per cent, so that text keeps its size on every screen. */
const [HEIGHT, BOTTOM, TOP] = [190, 24, 20]

/** Rounds a second over time, failed ones below; each bar tells its figures. */
export function Chart({ bars, seconds, title }: ChartProps) {
  const rates = bars.map(({ processed, failed }) => (processed + failed) / seconds)
  const top = roundUp(Math.max(...rates, 0))
  const step = 100 / Math.max(1, bars.length)
  const y = (perSecond: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - perSecond / top)
  const ground = y(0)
  return (
    <svg class="chart" width="100%" height={HEIGHT} role="img" aria-label={title}>
      {[top / 2, top, 0].map((line) => (
        <line class="grid" x1="0" x2="100%" y1={y(line)} y2={y(line)} />
      ))}
      {bars.map((bar, at) => (
        <BarOf bar={bar} seconds={seconds} x={at * step} step={step} y={y} />
      ))}
      {[top / 2, top].map((line) => (
        <text class="halo" x="0" y={y(line) - 4}>
          {rate(line)}
        </text>
      ))}
      {labelled(bars).map(([at, text]) => (
        <text x={percent((at + 0.5) * step)} y={ground + 18} text-anchor="middle">
          {text}
        </text>
      ))}
    </svg>
  )
}

interface BarProps {
  readonly bar: Bar
  readonly seconds: number
  /** Per cent, like `step`. */
  readonly x: number
  readonly step: number
  /** px of a rate. */
  y(perSecond: number): number
}

function BarOf({ bar, seconds, x, step, y }: BarProps) {
  const [ground, failed] = [y(0), y(bar.failed / seconds)]
  const all = y((bar.processed + bar.failed) / seconds)
  const place = { x: percent(x + step * 0.1), width: percent(step * 0.8) }
  return (
    <g>
      {bar.processed > 0 && <rect class="done" {...place} y={rounded(all)} height={rounded(ground - all)} />}
      {bar.failed > 0 && (
        <rect class="failed" {...place} y={rounded(failed)} height={rounded(ground - failed)} />
      )}
      <rect class="hover" x={percent(x)} width={percent(step)} y={TOP} height={ground - TOP}>
        <title>{told(bar, seconds)}</title>
      </rect>
    </g>
  )
}

/** More digits would only make the page longer. */
function rounded(n: number): string {
  return String(Math.round(n * 100) / 100)
}

function percent(n: number): string {
  return `${rounded(n)}%`
}

/** The same in a cell of a table, without words. */
export function Spark({ bars }: { bars: readonly Bar[] }) {
  const top = Math.max(1, ...bars.map(({ processed, failed }) => processed + failed))
  const [width, height] = [3, 22]
  return (
    <svg class="spark" width={bars.length * (width + 1)} height={height} aria-hidden="true">
      <rect class="done" y={height - 1} width={bars.length * (width + 1)} height="1" />
      {bars.map(({ processed, failed }, at) => {
        const [all, bad] = [processed + failed, failed].map((n) => (n / top) * height) as [number, number]
        if (all === 0) return null
        const place = { x: at * (width + 1), width }
        return (
          <g>
            <rect class="done" {...place} y={rounded(height - all)} height={rounded(all)} />
            {bad > 0 && <rect class="failed" {...place} y={rounded(height - bad)} height={rounded(bad)} />}
          </g>
        )
      })}
    </svg>
  )
}

function told({ from, processed, failed }: Bar, seconds: number): string {
  const until = new Date(from.getTime() + seconds * 1_000)
  const per = rate((processed + failed) / seconds)
  return `${clock(from)} to ${clock(until)} UTC: ${count(processed)} processed, ${count(failed)} failed, ${per} per s`
}

/** Some five of them, at even distances. */
function labelled(bars: readonly Bar[]): [number, string][] {
  const every = Math.max(1, Math.round(bars.length / 5))
  return bars.flatMap((bar, at) => (at % every === Math.floor(every / 2) ? [[at, clock(bar.from)]] : []))
}

function clock(time: Date): string {
  return time.toISOString().slice(11, 16)
}

/** To 1, 2 or 5 times a power of ten. */
function roundUp(n: number): number {
  if (n <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(n))
  return [1, 2, 5, 10].map((times) => times * power).find((candidate) => candidate >= n)!
}
