import type { Child } from 'hono/jsx'
import type { Finding } from '../diagnosis.ts'
import { Act } from './act.tsx'
import { count, duration, plural } from './amounts.tsx'
import type { Frame } from './document.tsx'
import { queuePath } from './paths.ts'
import { When } from './times.tsx'

/** What needs somebody: what, why, since when, and a safe button where there is one. */
export function Findings({ findings, frame }: { findings: readonly Finding[]; frame: Frame }) {
  if (findings.length === 0)
    return (
      <ul class="findings">
        <li class="fine">
          <p>Nothing is late, and every process renews its lease.</p>
        </li>
      </ul>
    )
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li class={BAD.has(finding.kind) ? 'bad' : undefined}>{told(finding, frame)}</li>
      ))}
    </ul>
  )
}

const BAD: ReadonlySet<Finding['kind']> = new Set(['unserved', 'silent', 'quiet'])

function told(finding: Finding, frame: Frame): Child {
  if (finding.kind === 'silent') {
    const { processId, host, pid, working, expiresAt } = finding.process
    return (
      <p>
        <strong>Process {processId} is silent.</strong> It runs on {host} as pid {pid}, and should have
        renewed its lease <When at={expiresAt} now={frame.now} />. Its {plural(working, 'job')} in work go to
        others once its lease is over.
      </p>
    )
  }
  const { queue } = finding
  const path = queuePath(queue.queue)
  const name = <a href={frame.base + path}>{queue.queue}</a>
  const due = `${plural(queue.due, 'job is', 'jobs are')} due, the oldest for ${duration(queue.lag)}.`
  if (finding.kind === 'paused')
    return (
      <>
        <p>
          <strong>{name} is paused.</strong> It was paused <When at={finding.since} now={frame.now} />. {due}
        </p>
        {frame.may.configure && <Act to={`${path}/resume`}>Resume</Act>}
      </>
    )
  if (finding.kind === 'unserved')
    return (
      <p>
        <strong>No worker serves {name}.</strong> {due} Start a worker that has this queue.
      </p>
    )
  if (finding.kind === 'quiet')
    return (
      <p>
        <strong>All workers of {name} are quiet,</strong> so they take no new jobs. {due} Start others.
      </p>
    )
  if (finding.kind === 'late')
    return (
      <p>
        <strong>{name} is late.</strong> {due} {count(queue.working)} in work, {plural(finding.slots, 'slot')}{' '}
        in {plural(finding.processes, 'process', 'processes')}.
      </p>
    )
  return (
    <>
      <p>
        <strong>Most jobs of {name} have failed before:</strong> {count(queue.retrying)} of{' '}
        {count(queue.waiting)}.
      </p>
      <a class="button" href={`${frame.base}${path}/jobs/retrying`}>
        See why
      </a>
    </>
  )
}
