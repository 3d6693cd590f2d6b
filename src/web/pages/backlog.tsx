import { count, duration, plural } from './amounts.tsx'
import { Share } from './rail.tsx'

interface BacklogProps {
  readonly waiting: number
  readonly working: number
  /** ms */
  readonly lag: number
  /** What waits where most does. */
  readonly most: number
}

/** What waits in one part of a queue, as a bar beside the others, and how late it is. */
export function Backlog({ waiting, working, lag, most }: BacklogProps) {
  return (
    <>
      <Share of={waiting} most={most} label={`${plural(waiting, 'job')} waiting`} />
      <span class="pair">
        <span>
          {count(waiting)}
          {working > 0 && <span class="working"> +{count(working)}</span>}
        </span>
        <span class="quiet">{lag === 0 ? '' : duration(lag)}</span>
      </span>
    </>
  )
}
