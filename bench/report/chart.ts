import { LOCKSTEP } from '../entrants.ts'
import type { Line, Summary } from './summary.ts'
import { format } from './table.ts'

/** A group of bars: a case in one configuration, for all contenders. */
interface Group {
  readonly title: string
  readonly lines: readonly Line[]
}

const GROUPS = [
  ['enqueue-bulk', 'default', 'bulk enqueue of 1,000'],
  ['enqueue-10', 'default', '10 producers, one by one'],
  ['work-10', 'default', 'processing, default configuration'],
  ['work-10', 'best', 'processing, best configuration'],
  ['order-1000-interleaved', 'best', '1,000 keys in strict order'],
] as const

const WIDTH = 760
const LABEL = 190
const BAR = 16
const GAP = 5
const HEADING = 30
const COLORS = { ours: '#2563eb', others: '#94a3b8' }

/** Jobs a second as bars. Each group has its own scale. */
export function chartOf(summary: Summary): string {
  const groups = GROUPS.map(([name, configuration, title]): Group => {
    const lines = summary.lines.filter(
      (line) => line.benchCase.name === name && line.configuration === configuration,
    )
    return { title, lines: lines.toSorted((a, b) => b.value - a.value) }
  })
  let top = 0
  const drawn = groups
    .filter(({ lines }) => lines.length > 0)
    .map((group) => {
      const at = top
      top += HEADING + group.lines.length * (BAR + GAP) + 10
      return draw(group, at)
    })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" font-family="system-ui, sans-serif" font-size="12">
<title>Jobs a second, by queue</title>
<rect width="${WIDTH}" height="${top}" fill="#ffffff"/>
${drawn.join('\n')}
</svg>
`
}

function draw({ title, lines }: Group, top: number): string {
  const highest = Math.max(...lines.map(({ value }) => value))
  const bars = lines.map((line, index) => {
    const y = top + HEADING + index * (BAR + GAP)
    const width = Math.max(1, ((WIDTH - LABEL - 90) * line.value) / highest)
    const middle = y + BAR - 4
    return [
      `<text x="${LABEL - 8}" y="${middle}" text-anchor="end">${line.name}</text>`,
      `<rect x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" fill="${line.name === LOCKSTEP ? COLORS.ours : COLORS.others}"/>`,
      `<text x="${(LABEL + width + 6).toFixed(1)}" y="${middle}">${format(line.value)}/s</text>`,
    ].join('')
  })
  return [`<text x="8" y="${top + 20}" font-weight="bold">${title}</text>`, ...bars].join('\n')
}
