import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with what is kept of failures, and of what people do. */
export const RECORDED: readonly Mutant[] = [
  {
    name: 'failed attempts that outlive a success',
    promise: 'R6',
    breaks: 'A job that succeeded, and was pushed meanwhile, shows failures of a round that is over.',
    edits: [sql('complete', 'error = NULL, attempts = NULL,', 'error = NULL,')],
    tests: ['store/attempts', 'model/model'],
  },
  {
    name: 'a text that is lost when the next failure comes',
    promise: 'R6',
    breaks: 'Of all failures but the last, nothing tells what they were.',
    edits: [sql('with_attempt', `WHEN _attempts -> 0 ? 'error' THEN`, 'WHEN true THEN')],
    tests: ['store/attempts', 'model/model'],
  },
  {
    name: 'a crash that leaves no trace',
    promise: 'R10',
    breaks: 'A job whose process died shows only how often, until it succeeds or fails.',
    edits: [sql('claim', ' AND NOT _suspects THEN', ' THEN')],
    tests: ['store/attempts', 'model/model'],
  },
  {
    name: 'attempts from the morgue under the error of another',
    promise: 'R5',
    breaks: 'The last failure of a dead payload seems to have been what its job says of something else.',
    edits: [sql('requeue', 'WHEN j.error IS NULL THEN', 'WHEN true THEN')],
    tests: ['store/attempts'],
  },
  {
    name: 'two actions with one number in the audit',
    promise: 'R11',
    breaks: 'Of two people who act at once, one is refused.',
    edits: [source('store/audit', 'ON CONFLICT DO NOTHING ', '')],
    tests: ['admin/audit'],
  },
]
