import type { Child } from 'hono/jsx'
import type { FailedAttempt, PayloadHeaders, QueueStats } from '../../index.ts'
import type { ShownDead, ShownJob } from '../reads/reads.ts'
import type { ShownPayload } from '../reads/redaction.ts'
import { Act, type ChoiceAct, WORDS } from './act.tsx'
import { firstLine, plural } from './amounts.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { stateOf } from './jobs.tsx'
import { indented } from './json.ts'
import { queuePath, withQuery } from './paths.ts'
import { QueueHead } from './queue.tsx'
import { Rail, type TickState } from './rail.tsx'
import { Exactly } from './times.tsx'

interface JobPageProps {
  readonly frame: Frame
  readonly queue: QueueStats
  readonly id: string
  /** Its round in work, and what waits: at most one of each. */
  readonly entries: readonly ShownJob[]
  readonly dead: readonly ShownDead[]
}

export function JobPage({ frame, queue, id, entries, dead }: JobPageProps) {
  return (
    <Document frame={frame} title={`${id} in ${queue.queue}`} place={undefined}>
      <QueueHead frame={frame} queue={queue} tab={undefined} />
      <div class="head">
        <h2 class="id">{id}</h2>
        {frame.may.act && entries.some(({ state }) => state === 'waiting') && (
          <div class="actions">
            {(['jobs/perform-now', 'jobs/kill', 'jobs/delete'] as const).map((act) => (
              <OneAct queue={queue.queue} act={act} body={{ ids: [id] }} />
            ))}
          </div>
        )}
      </div>
      {entries.length === 0 && dead.length === 0 && (
        <Nothing>
          <p>Nothing of this id waits, is in work or is dead.</p>
          <p>It may have been performed meanwhile.</p>
        </Nothing>
      )}
      <div data-live>
        {entries.map((entry) => (
          <Entry
            frame={frame}
            queue={queue.queue}
            entry={entry}
            next={entry.state === 'waiting' && entries.length > 1}
          />
        ))}
      </div>
      {dead.length > 0 && (
        <section class="card">
          <h2>Dead payloads</h2>
          <ol class="payloads">
            {dead.map((one) => (
              <li class="dead">
                <span class="quiet">
                  score {String(one.score)}, died <Exactly at={one.diedAt} now={frame.now} />
                  {one.tenant !== null && `, tenant ${one.tenant}`}
                </span>
                {one.error && <ErrorText text={one.error} />}
                <Attempts frame={frame} attempts={one.attempts} />
                <Payload payload={one.payload} headers={one.headers} />
                {frame.may.act && (
                  <div class="actions">
                    {(['dead/requeue', 'dead/delete'] as const).map((act) => (
                      <OneAct
                        queue={queue.queue}
                        act={act}
                        body={{ filter: { ids: [id], keys: [one.key] } }}
                      />
                    ))}
                  </div>
                )}
              </li>
            ))}
          </ol>
        </section>
      )}
    </Document>
  )
}

function OneAct({ queue, act, body }: { queue: string; act: ChoiceAct; body: object }) {
  const { verb, one, effect, destroys } = WORDS[act]
  const question = destroys ? `${verb} this ${one}?` : undefined
  return (
    <Act to={`${queuePath(queue)}/${act}`} body={body} question={question} effect={effect}>
      {verb}
    </Act>
  )
}

interface EntryProps {
  readonly frame: Frame
  readonly queue: string
  readonly entry: ShownJob
  readonly next: boolean
}

/** The job with the payloads of its round in work, or with those that wait. */
function Entry({ frame, queue, entry, next }: EntryProps) {
  const state: TickState = next ? 'next' : stateOf(entry)
  const {
    payloads,
    performIn,
    claimedAt,
    leaseEndsAt,
    processId,
    fence,
    retryCount,
    crashes,
    shard,
    lane,
    error,
  } = entry
  return (
    <section class="card">
      <div class="above">
        <h2>{next ? 'Next round' : TITLES[state]}</h2>
        <Rail state={state} payloads={payloads.count} />
      </div>
      <dl class="facts">
        <Fact name="due">
          <Exactly at={performIn} now={frame.now} />
        </Fact>
        {claimedAt && (
          <Fact name="claimed">
            <Exactly at={claimedAt} now={frame.now} />, by{' '}
            {processId === 0 ? 'a consumer' : <a href={`${frame.base}/processes`}>process {processId}</a>}
          </Fact>
        )}
        {leaseEndsAt && (
          <Fact name="lease ends">
            <Exactly at={leaseEndsAt} now={frame.now} />
          </Fact>
        )}
        {fence !== null && <Fact name="fence">{fence}</Fact>}
        {entry.tenant !== null && (
          <Fact name="tenant">
            <a href={withQuery(`${frame.base}${queuePath(queue)}/jobs/waiting`, { tenant: entry.tenant })}>
              {entry.tenant}
            </a>
          </Fact>
        )}
        <Fact name="shard">
          {shard}, lane {lane}
        </Fact>
        <Fact name="failures">
          {retryCount + 1}
          {crashes > 0 && `, ${plural(crashes, 'crash', 'crashes')}`}
        </Fact>
        {error && (
          <Fact name="last error">
            <ErrorText text={error} />
          </Fact>
        )}
      </dl>
      <Attempts frame={frame} attempts={entry.attempts} />
      <h3 class="hidden">Payloads</h3>
      <ol class="payloads">
        {payloads.first.map((one) => (
          <li class={state}>
            <span class="quiet">
              score {String(one.score)}
              {one.expiresIn && (
                <>
                  , expires <Exactly at={one.expiresIn} now={frame.now} />
                </>
              )}
            </span>
            <Payload payload={one} headers={one.headers} />
          </li>
        ))}
      </ol>
      {payloads.count > payloads.first.length && (
        <p class="quiet">
          And {plural(payloads.count - payloads.first.length, 'payload')} with higher scores.
        </p>
      )}
    </section>
  )
}

const TITLES: Readonly<Record<TickState, string>> = {
  working: 'In work',
  waiting: 'Waiting',
  retrying: 'Waiting for another try',
  next: 'Next round',
  dead: 'Dead',
}

function Payload({ payload, headers }: { payload: ShownPayload; headers: PayloadHeaders | null }) {
  if (payload.json === null) return <p class="quiet">This payload is hidden.</p>
  return (
    <>
      <pre>
        {indented(payload.json)}
        {payload.cut && ' …'}
      </pre>
      {headers && (
        <details>
          <summary class="quiet">headers</summary>
          <pre>{indented(JSON.stringify(headers))}</pre>
        </details>
      )}
    </>
  )
}

/** The last ones, in the order in which they failed. */
function Attempts({
  frame,
  attempts = [],
}: {
  frame: Frame
  attempts?: readonly FailedAttempt[] | undefined
}) {
  if (attempts.length === 0) return null
  return (
    <details class="timeline">
      <summary>{plural(attempts.length, 'failed attempt')}</summary>
      <ol class="attempts">
        {attempts.toReversed().map(({ at, kind, error }) => (
          <li>
            <span class="tag retrying">{kind}</span> <Exactly at={at} now={frame.now} />
            {error && <ErrorText text={error} />}
          </li>
        ))}
      </ol>
    </details>
  )
}

/** Its stack can be opened. */
function ErrorText({ text }: { text: string }) {
  const first = firstLine(text)
  if (first === text) return <p class="dead">{text}</p>
  return (
    <details>
      <summary class="dead">{first}</summary>
      <pre>{text}</pre>
    </details>
  )
}

function Fact({ name, children }: { name: string; children: Child }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  )
}
