import type { AuditEntry } from '../../index.ts'
import { count, duration } from './amounts.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { queuePath, withQuery } from './paths.ts'
import { When } from './times.tsx'

interface AuditPageProps {
  readonly frame: Frame
  readonly entries: readonly AuditEntry[]
  /** The entries are older ones than this. */
  readonly before: number | undefined
  /** Whether there may be still older ones. */
  readonly isFull: boolean
}

export function AuditPage({ frame, entries, before, isFull }: AuditPageProps) {
  const path = `${frame.base}/audit`
  return (
    <Document frame={frame} title="Audit log" place="audit">
      <div class="head">
        <h1>Audit log</h1>
      </div>
      {entries.length === 0 ? (
        <Nothing>
          <p>Nobody has done anything yet.</p>
          <p>What people do here, and with the command line, is recorded for 90 days.</p>
        </Nothing>
      ) : (
        <div class="scroll" data-live>
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">when</th>
                <th scope="col">who</th>
                <th scope="col">action</th>
                <th scope="col">queue</th>
                <th scope="col" class="n">
                  affected
                </th>
                <th scope="col">of these</th>
                <th scope="col">outcome</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <EntryRow frame={frame} entry={entry} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(before !== undefined || isFull) && (
        <nav class="pager" aria-label="Result pages">
          {before === undefined ? (
            <span />
          ) : (
            <a class="button" href={path}>
              Newest
            </a>
          )}
          {isFull && (
            <a class="button" rel="next" href={withQuery(path, { before: String(entries.at(-1)!.id) })}>
              Older
            </a>
          )}
        </nav>
      )}
    </Document>
  )
}

function EntryRow({ frame, entry }: { frame: Frame; entry: AuditEntry }) {
  const { by, role, action, queue, details, beganAt, affected } = entry
  return (
    <tr>
      <td class="wide">
        <When at={beganAt} now={frame.now} />
      </td>
      <th scope="row" title={`as ${role} in the database`}>
        {by}
      </th>
      <td data-label="action">{action}</td>
      <td class="id" data-label="queue">
        {queue !== null && <a href={frame.base + queuePath(queue)}>{queue}</a>}
      </td>
      <td class="n" data-label="affected">
        {affected === null ? '–' : count(affected)}
      </td>
      <td class="id wide">{which(details)}</td>
      <td class="wide">
        <Outcome entry={entry} />
      </td>
    </tr>
  )
}

/** A filter of nothing matches all. A short payload can be guessed from its digest, so that is not shown. */
function which(details: AuditEntry['details']): string {
  if (Object.keys(details).length === 0) return 'all'
  return JSON.stringify(details, (key, value) => (key === 'digests' ? '…' : value))
}

function Outcome({ entry: { beganAt, endedAt, error } }: { entry: AuditEntry }) {
  if (error !== null) return <span class="dead">{error}</span>
  if (endedAt === null) return <span class="retrying">not ended</span>
  return <span class="quiet">in {duration(endedAt.getTime() - beganAt.getTime())}</span>
}
