import { count, plural } from './amounts.tsx'

/** What a payload on a rail is. */
export type TickState = 'waiting' | 'working' | 'retrying' | 'dead' | 'next'

const [WIDTH, HEIGHT, PITCH, MARGIN] = [6, 14, 10, 2]
/** More ticks than that become a number. */
const MOST = 8

/** The payloads of an id, sorted by score from left to right; those that move together in a round are coupled. */
export function Rail({ state, payloads }: { state: TickState; payloads: number }) {
  const ticks = Math.min(payloads, MOST)
  const rest = payloads - ticks
  const track = MARGIN * 2 + MOST * PITCH
  const width = track + (rest > 0 ? 44 : 0)
  const middle = HEIGHT / 2 + 2
  const end = MARGIN + ticks * PITCH
  return (
    <svg class="rail" width={width} height={HEIGHT + 4} role="img" aria-label={plural(payloads, 'payload')}>
      <title>{plural(payloads, 'payload')}</title>
      <line class="track" x1="0" x2={track} y1={middle} y2={middle} stroke-width="2" />
      {state === 'working' && ticks > 1 && (
        <line class="coupled" x1={MARGIN} x2={end - 4} y1={middle} y2={middle} stroke-width="4" />
      )}
      {Array.from({ length: ticks }, (_, at) => (
        <rect class={`tick ${state}`} x={MARGIN + at * PITCH} y="2" width={WIDTH} height={HEIGHT} rx="1.5" />
      ))}
      {rest > 0 && (
        <text x={track + 4} y={middle + 4}>
          +{count(rest)}
        </text>
      )}
    </svg>
  )
}

/** A share of the longest one, as a bar on a rail. */
export function Share({ of, most, label }: { of: number; most: number; label: string }) {
  const width = most === 0 ? 0 : Math.max(of > 0 ? 1 : 0, (of / most) * 100)
  return (
    <svg class="rail" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
      <line class="track" x1="0" x2="100" y1="4" y2="4" stroke-width="2" />
      <rect class="tick" x="0" y="1" width={width} height="6" />
    </svg>
  )
}

/** Three rails whose payloads stand in step. */
export function Mark({ size }: { size: number }) {
  const rows = [0, 1, 2]
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {rows.map((row) => (
        <g>
          <rect class="mark" x="2" y={3 + row * 7} width="12" height="4" rx="1" opacity="0.35" />
          <rect class="mark step" x="16" y={3 + row * 7} width="6" height="4" rx="1" />
        </g>
      ))}
    </svg>
  )
}
