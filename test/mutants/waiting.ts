import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes with what waits behind a round in progress, and with what a round leaves. */
export const WAITING: readonly Mutant[] = [
  {
    name: 'delete, kill and perform now of what is in work',
    promise: 'P1',
    breaks: 'A job is taken from under its handler, and another handler may start beside it.',
    edits: [
      sql(
        'lock_waiting',
        'AND (j.next_perform_in IS NOT NULL OR j.claimed_by IS DISTINCT FROM 0 AND NOT EXISTS (',
        'AND (true OR NOT EXISTS (',
      ),
      sql('lock_waiting', 'ELSE @schema@.is_gone(h.claimed_by) END', 'ELSE true END'),
    ],
    tests: ['admin/p1-in-work'],
  },
  {
    name: 'a person’s hand on what waits behind a round reaches the round',
    promise: 'P1',
    breaks:
      'Who removes what a hanging handler holds up ends its claim, and another handler may start beside it.',
    edits: [sql('lock_waiting', 'CASE WHEN NOT w.whole THEN h.fence END', 'NULL::bigint')],
    tests: ['admin/next-round'],
  },
  {
    name: 'a delete behind a round takes its payloads along',
    promise: 'P3',
    breaks: 'A round that fails has lost what it failed with.',
    edits: [sql('delete_jobs', ' AND t.fence >= coalesce(h.fence, 0)\n', '\n')],
    tests: ['admin/next-round'],
  },
  {
    name: 'a deleted next round keeps its mark',
    promise: 'R11',
    breaks: 'A round without payloads follows.',
    edits: [
      sql(
        'delete_jobs',
        '  UPDATE @schema@.jobs j SET next_perform_in = NULL WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);\n',
        '',
      ),
    ],
    tests: ['admin/next-round'],
  },
  {
    name: 'what waits behind a round is not counted',
    promise: 'P3',
    breaks: 'Behind a handler that hangs nothing seems to wait, and lag stays 0.',
    edits: [sql('queue_stats', 'THEN h.oldest ELSE h.next_oldest END', 'THEN h.oldest END')],
    tests: ['admin/next-round'],
  },
  {
    name: 'pages that don’t tell the entries of an id apart',
    promise: 'R11',
    breaks: 'A page that ends between the two loses the second.',
    edits: [source('store/jobs', "  { column: 'e.state', type: 'state' },\n", '')],
    tests: ['admin/next-round'],
  },
  {
    name: 'a filter not looked at again',
    promise: 'R11',
    breaks: 'What was waited for is deleted, though it is something else by now.',
    edits: [
      source(
        'store/jobs',
        ".selectFrom(entries.as('e'))\n    .where(({ and }) => and(conditionsOf(filter)))",
        ".selectFrom(entries.as('e'))\n    .where(({ and }) => and(conditionsOf({})))",
      ),
    ],
    tests: ['admin/next-round', 'admin/jobs'],
  },
  {
    name: 'an entry that changes between the look and the deed',
    promise: 'R11',
    breaks: 'Who meant what was pushed meanwhile deletes a round that its process has just left.',
    edits: [source('store/jobs', 'entries.map(({ next }) => next)', 'null')],
    tests: ['admin/next-round'],
  },
  {
    name: 'a death that hastens what was scheduled',
    promise: 'R7',
    breaks: 'What is to run in an hour runs at once, because another payload of its id died.',
    edits: [
      sql(
        'bury_failed',
        'ELSE t.next_perform_in\n',
        'ELSE CASE WHEN t.next_perform_in IS NOT NULL THEN clock_timestamp() END\n',
      ),
    ],
    tests: ['store/failure'],
  },
  {
    name: 'an error that goes with the dead',
    promise: 'R7',
    breaks: 'Nothing tells why what is left of a round waits.',
    edits: [sql('bury_failed', 'error = _errors[d.place],', 'error = NULL,')],
    tests: ['store/failure'],
  },
  {
    name: 'an error that stays in the morgue',
    promise: 'R5',
    breaks: 'What comes back from the morgue has forgotten what it died of.',
    edits: [sql('requeue', 'error = coalesce(j.error, r.error)', 'error = j.error')],
    tests: ['admin/morgue'],
  },
  {
    name: 'a number’s digits don’t count',
    promise: 'R2',
    breaks: 'Of two payloads whose texts differ, one is dropped.',
    edits: [sql('digest_of', '_payload::text', `regexp_replace(_payload::text, '([0-9])[.]0+', '\\1', 'g')`)],
    tests: ['store/merge'],
  },
]
