import type { ProcessRow } from '../../index.ts'
import type { ShardStats } from '../../store/parts.ts'
import { Backlog } from './backlog.tsx'

interface ShardMapProps {
  readonly shards: readonly ShardStats[]
  readonly processes: readonly ProcessRow[]
}

/** Each shard on its rail: how much waits in it, how late it is, and whose it is. */
export function ShardMap({ shards, processes }: ShardMapProps) {
  const most = Math.max(0, ...shards.map(({ waiting }) => waiting))
  return (
    <ul class="shards">
      {shards.map(({ shard, waiting, working, lag, processId }) => (
        <li>
          <span class="pair">
            <b>{shard}</b>
            <Owner processId={processId} processes={processes} />
          </span>
          <Backlog waiting={waiting} working={working} lag={lag} most={most} />
        </li>
      ))}
    </ul>
  )
}

function Owner({ processId, processes }: { processId: number | null; processes: readonly ProcessRow[] }) {
  if (processId === null) return <span class="unowned">nobody’s</span>
  const process = processes.find((one) => one.processId === processId)
  return (
    <span class="quiet" title={process && `pid ${process.pid} on ${process.host}`}>
      process {processId}
    </span>
  )
}
