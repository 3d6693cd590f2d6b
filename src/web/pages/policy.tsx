import type { ProcessRow, ReportedPolicy } from '../../index.ts'
import { bytes, count, duration } from './amounts.tsx'

interface PolicyProps {
  readonly queue: string
  readonly processes: readonly ProcessRow[]
}

/** How the processes that serve a queue define it, which may differ during a rollout. */
export function Policy({ queue, processes }: PolicyProps) {
  const policies = policiesOf(queue, processes)
  if (policies.size === 0) return null
  return (
    <section>
      <h2>Policy</h2>
      {[...policies].map(([text, processIds]) => (
        <>
          {policies.size > 1 && (
            <p class="retrying">
              {processIds.length === 1 ? 'Process' : 'Processes'} {processIds.join(', ')}
            </p>
          )}
          <Options policy={JSON.parse(text)} />
        </>
      ))}
    </section>
  )
}

/** By each policy, as JSON, the processes that have it. */
function policiesOf(queue: string, processes: readonly ProcessRow[]): Map<string, number[]> {
  const policies = new Map<string, number[]>()
  for (const { processId, shards } of processes) {
    const policy = shards.find((one) => one.queue === queue)?.policy
    if (!policy) continue
    const text = JSON.stringify(policy)
    policies.set(text, [...(policies.get(text) ?? []), processId])
  }
  return policies
}

function Options({ policy }: { policy: ReportedPolicy }) {
  const options = Object.entries(policy)
  if (options.length === 0) return <p class="quiet">Every option has its default.</p>
  return (
    <>
      <dl class="facts">
        {options.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{told(name, value)}</dd>
          </>
        ))}
      </dl>
      <p class="quiet">Other options have their defaults.</p>
    </>
  )
}

function told(name: string, value: number | true): string {
  if (value === true) return name === 'transactional' ? 'yes' : `the definition’s own`
  if (name === 'timeout') return duration(value)
  return name === 'maxBytes' ? bytes(value) : count(value)
}
