import type { Child } from 'hono/jsx'
import type { Frame } from './document.tsx'

/** What buttons do to jobs or dead payloads, in words; the script of the page asks and reports with them. */
interface Words {
  /** Begins the question, and names the button. */
  readonly verb: string
  readonly one: string
  readonly many: string
  /** What becomes of them. */
  readonly effect: string
  readonly destroys: boolean
}

const [JOB, JOBS] = ['job', 'jobs']
const [PAYLOAD, PAYLOADS] = ['dead payload', 'dead payloads']

export const WORDS = {
  'jobs/perform-now': {
    verb: 'Perform now',
    one: JOB,
    many: JOBS,
    effect: 'They become due at once.',
    destroys: false,
  },
  'jobs/kill': {
    verb: 'Kill',
    one: JOB,
    many: JOBS,
    effect:
      'Their payloads go to the morgue, from where they can be requeued. What is in work is left alone.',
    destroys: true,
  },
  'jobs/delete': {
    verb: 'Delete',
    one: JOB,
    many: JOBS,
    effect: 'Their payloads are gone for good. What is in work is left alone.',
    destroys: true,
  },
  'dead/requeue': {
    verb: 'Requeue',
    one: PAYLOAD,
    many: PAYLOADS,
    effect: 'They go back to their jobs, which become due at once.',
    destroys: false,
  },
  'dead/delete': {
    verb: 'Delete',
    one: PAYLOAD,
    many: PAYLOADS,
    effect: 'They are gone for good.',
    destroys: true,
  },
} as const satisfies Record<string, Words>

export type ChoiceAct = keyof typeof WORDS

interface ActProps {
  /** Of the API, below `/api/v1`. */
  readonly to: string
  readonly body?: object
  /** Asks before. */
  readonly question?: string
  readonly effect?: string
  readonly class?: string
  readonly children: Child
}

/** A button that calls the API. */
export function Act({ to, body = {}, question, effect, class: look, children }: ActProps) {
  return (
    <button
      type="button"
      class={look}
      data-act={to}
      data-body={JSON.stringify(body)}
      data-question={question}
      data-effect={effect}
    >
      {children}
    </button>
  )
}

/** Buttons for what is selected in the list around them, or for all that match its filter. */
export function ChoiceActs({ frame, acts }: { frame: Frame; acts: readonly ChoiceAct[] }) {
  if (!frame.may.act) return null
  return (
    <div class="above" data-acts hidden>
      <label class="choose">
        <input type="checkbox" data-all />
        <span data-selected>select all that match</span>
      </label>
      <div class="actions">
        {acts.map((act) => {
          const { verb, one, many, effect, destroys } = WORDS[act]
          return (
            <button
              type="button"
              data-choice={act}
              data-verb={verb}
              data-one={one}
              data-many={many}
              data-effect={effect}
              data-destroys={destroys ? '' : undefined}
              disabled
            >
              {verb}
            </button>
          )
        })}
      </div>
    </div>
  )
}

/** Where the script asks, shows progress and reports. */
export function Dialog() {
  return (
    <dialog aria-labelledby="asked" data-dialog>
      <h2 id="asked" data-asked>
        Sure?
      </h2>
      <p data-effect />
      <progress value="0" max="1" aria-label="done" hidden data-bar />
      <p role="status" data-report />
      <div class="actions">
        <button type="button" class="main" data-yes>
          Yes
        </button>
        <button type="button" data-no>
          Cancel
        </button>
      </div>
    </dialog>
  )
}
