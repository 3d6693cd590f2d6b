import { type Mutant, sql } from './mutant.ts'

/** Mistakes with many or large payloads. */
export const SIZED: readonly Mutant[] = [
  {
    name: 'a completion that forgets the cut',
    promise: 'P3',
    breaks: 'What maxPayloads and maxBytes left for the next round is deleted with what was performed.',
    edits: [
      sql(
        'complete',
        'CASE WHEN r.cut_seq IS NULL THEN true ELSE t.digest',
        'CASE WHEN true THEN true ELSE t.digest',
      ),
    ],
    tests: ['store/batch', 'store/bytes'],
  },
  {
    name: 'a round beyond maxPayloads',
    promise: 'R9',
    breaks: 'An id with a million payloads is handed over at once.',
    edits: [sql('payloads_of_round', '_count > _most OR ', '')],
    tests: ['store/batch'],
  },
  {
    name: 'a round beyond maxBytes',
    promise: 'R9',
    breaks: 'An id with a hundred megabytes is handed over at once, and kills its process.',
    edits: [sql('payloads_of_round', '_count > _most OR _bytes > _max_bytes', '_count > _most')],
    tests: ['store/bytes'],
  },
  {
    name: 'a claim that brings all payloads',
    promise: 'R10',
    breaks:
      'Payloads that exceed the memory kill the process before it has got the answer, so that no crash is counted.',
    edits: [
      sql(
        'claim',
        '_floor := greatest(_budget - _max_bytes[place], 0);',
        '_budget := _max_bytes[place];\n        _floor := 0;',
      ),
    ],
    tests: ['store/bytes'],
  },
  {
    name: 'payloads counted by their text alone',
    promise: 'R10',
    breaks: 'An id with a million short payloads kills the process before it has got the answer.',
    edits: [
      sql(
        'claim',
        'greatest(octet_length(payload) + coalesce(octet_length(headers), 0), 64)',
        'coalesce(octet_length(payload), 0)',
      ),
      sql('claim', 'greatest(_size, 64)', 'coalesce(_size, 0)'),
    ],
    tests: ['store/bytes'],
  },
  {
    name: 'a load of any number of short payloads',
    promise: 'R9',
    breaks: 'A round of short payloads takes up many times the memory that its bytes say.',
    edits: [
      sql('payloads_of_round', 'coalesce(_max_payloads, greatest(_max_bytes / 64, 1000))', '_max_payloads'),
    ],
    tests: ['store/bytes'],
  },
  {
    name: 'a load that does not look at the claim',
    promise: 'P6',
    breaks: 'Who lost its claim begins a round of which others may have performed a part.',
    edits: [sql('load_payloads', '  IF NOT FOUND THEN\n', '  IF false THEN\n')],
    tests: ['store/bytes'],
  },
  {
    name: 'a load with an old fence',
    promise: 'P6',
    breaks: 'A process that has claimed an id anew performs the round of its former claim, too.',
    edits: [sql('load_payloads', 'AND j.fence = _fence AND j.claimed_by', 'AND j.claimed_by')],
    tests: ['store/bytes'],
  },
  {
    name: 'scores with the digits that the session gives them',
    promise: 'R9',
    breaks:
      'With extra_float_digits = 0 a cut round completes fewer payloads than it had, and they come again.',
    edits: [
      sql('claim', 'SET extra_float_digits = 1\n', ''),
      sql('load_payloads', 'SET extra_float_digits = 1\n', ''),
    ],
    tests: ['store/bytes'],
  },
  {
    name: 'scores that are shown with the digits that the session gives them',
    promise: 'R11',
    breaks: 'With extra_float_digits = 0 other scores are found than were pushed.',
    edits: [
      sql('payloads_of', 'SET extra_float_digits = 1\n', ''),
      sql('payloads_from', 'SET extra_float_digits = 1\n', ''),
    ],
    tests: ['admin/exact-scores'],
  },
]
