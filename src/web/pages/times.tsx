import { duration } from './amounts.tsx'

/** A time as its distance from now, with the exact one beside it for who points at it. */
export function When({ at, now }: { at: Date; now: number }) {
  const exact = at.toISOString()
  return (
    <time datetime={exact} title={`${exact.slice(0, 10)} ${exact.slice(11, 23)} UTC`}>
      {distance(at.getTime() - now)}
    </time>
  )
}

/** Both, side by side. */
export function Exactly({ at, now }: { at: Date; now: number }) {
  const exact = at.toISOString()
  return (
    <>
      <time datetime={exact}>
        {exact.slice(0, 10)} {exact.slice(11, 23)} UTC
      </time>{' '}
      <span class="quiet">({distance(at.getTime() - now)})</span>
    </>
  )
}

/** Below that, it is now. */
const MOMENT = 1_000

function distance(ms: number): string {
  if (Math.abs(ms) < MOMENT) return 'now'
  return ms < 0 ? `${duration(-ms)} ago` : `in ${duration(ms)}`
}
