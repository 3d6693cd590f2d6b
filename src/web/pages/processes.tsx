import type { ProcessRow } from '../../index.ts'
import { Act } from './act.tsx'
import { bytes, count, duration, plural } from './amounts.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { jobPath, queuePath } from './paths.ts'
import { When } from './times.tsx'

interface ProcessesPageProps {
  readonly frame: Frame
  readonly processes: readonly ProcessRow[]
}

export function ProcessesPage({ frame, processes }: ProcessesPageProps) {
  return (
    <Document frame={frame} title="Processes" place="processes">
      <div class="head">
        <h1>Processes</h1>
      </div>
      {processes.length === 0 ? (
        <Nothing>
          <p>No worker process runs.</p>
          <p>
            <code>npx lockstep work -r ./queues.js</code> starts one, or <code>createWorker().start()</code>{' '}
            in your application.
          </p>
        </Nothing>
      ) : (
        <div data-live>
          {processes.map((process) => (
            <ProcessCard frame={frame} process={process} />
          ))}
        </div>
      )}
    </Document>
  )
}

function ProcessCard({ frame, process }: { frame: Frame; process: ProcessRow }) {
  const { processId, host, pid, version, startedAt, shards } = process
  return (
    <section class="card">
      <div class="head">
        <h2>Process {processId}</h2>
        <State process={process} />
        <span class="quiet">
          pid {pid} on {host}, version {version}, started <When at={startedAt} now={frame.now} />
        </span>
        {frame.may.configure && <Steering process={process} />}
      </div>
      <dl class="figures">
        <Cell name="slots" text={`${count(process.doing.length)} of ${count(process.slots)}`} note="busy" />
        <Cell name="jobs in work" text={count(process.working)} />
        <Cell
          name="event loop"
          text={process.eventLoopDelay === null ? '–' : delay(process)}
          note="longest delay"
        />
        <Cell name="memory" text={process.memory === null ? '–' : bytes(process.memory)} />
        <Cell name="lease" text={lease(process, frame.now)} note="left" />
      </dl>
      <p class="quiet">
        {process.queues.map((queue, at) => (
          <>
            {at > 0 && ', '}
            <a href={frame.base + queuePath(queue)}>{queue}</a>
            {ofShards(shards.find((one) => one.queue === queue)?.count)}
          </>
        ))}
      </p>
      {process.doing.length > 0 && <Slots frame={frame} process={process} />}
    </section>
  )
}

function State({ process }: { process: ProcessRow }) {
  if (process.overdue) return <span class="tag dead">silent</span>
  if (process.request === 'stop') return <span class="tag retrying">stopping</span>
  if (process.quiet || process.request === 'quiet') return <span class="tag">quiet</span>
  return null
}

function Steering({ process }: { process: ProcessRow }) {
  const to = `/processes/${process.processId}`
  return (
    <div class="actions">
      {!process.quiet && process.request === null && <Act to={`${to}/quiet`}>Quiet</Act>}
      {process.request !== 'stop' && (
        <Act
          to={`${to}/stop`}
          question={`Stop process ${process.processId}?`}
          effect="It lets its handlers end, and its shards go to other processes."
        >
          Stop
        </Act>
      )}
    </div>
  )
}

function Slots({ frame, process }: { frame: Frame; process: ProcessRow }) {
  return (
    <div class="scroll">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col" class="n">
              slot
            </th>
            <th scope="col">queue</th>
            <th scope="col" class="n">
              shard
            </th>
            <th scope="col">ids</th>
            <th scope="col">since</th>
          </tr>
        </thead>
        <tbody>
          {process.doing.map(({ slot, queue, shard, jobs, ids, since }) => (
            <tr>
              <td class="n" data-label="slot">
                {slot}
              </td>
              <td data-label="queue">{queue}</td>
              <td class="n" data-label="shard">
                {shard}
              </td>
              <td class="id wide">
                {ids.map((id, at) => (
                  <>
                    {at > 0 && ', '}
                    <a href={frame.base + jobPath(queue, id)}>{id}</a>
                  </>
                ))}
                {jobs > ids.length && <span class="quiet"> and {plural(jobs - ids.length, 'other')}</span>}
              </td>
              <td data-label="since">
                <When at={since} now={frame.now} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Cell({ name, text, note }: { name: string; text: string; note?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={text === '0' ? 'zero' : undefined}>
        {text}
        {note && <small>{note}</small>}
      </dd>
    </div>
  )
}

function delay({ eventLoopDelay }: ProcessRow): string {
  return duration(eventLoopDelay ?? 0)
}

function lease({ expiresAt }: ProcessRow, now: number): string {
  return duration(Math.max(0, expiresAt.getTime() - now))
}

function ofShards(owned: number | undefined): string {
  return owned === undefined ? '' : ` (${plural(owned, 'shard')})`
}
