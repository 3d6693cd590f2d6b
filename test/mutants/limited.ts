import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes that limits in particular could make. */
export const LIMITED: readonly Mutant[] = [
  {
    name: 'limits that are counted without their lock',
    promise: 'R9',
    breaks: 'Two claims at once take the last place both.',
    edits: [
      sql(
        'take_within_limits',
        '_ready[_queue] := @schema@.lock_limits(_limited[_queue]);',
        '_ready[_queue] := true;',
      ),
    ],
    tests: ['store/limits'],
  },
  {
    name: 'a place that a dead process keeps',
    promise: 'R9',
    breaks: 'After some deaths, the queue stands still.',
    edits: [
      sql(
        'count_holds',
        'WHERE (SELECT true FROM @schema@.processes l WHERE l.process_id = p.process_id) IS NULL',
        'WHERE false',
      ),
    ],
    tests: ['store/limits'],
  },
  {
    name: 'a place that is never left to others',
    promise: 'R9',
    breaks: 'The process that gives it back takes it again in the same call, as long as it has work.',
    edits: [sql('free_places', 'IF free > 0 THEN', 'IF false THEN')],
    tests: ['store/limits'],
  },
  {
    name: 'a window that jumps',
    promise: 'R9',
    breaks: 'Twice as many rounds begin around the border of two windows.',
    edits: [sql('started', '_now - @schema@.rate_window(_per))', '_now - @schema@.rate_window(_per) / 2)')],
    tests: ['store/limits'],
  },
  {
    name: 'a tenant over its limit that stops its lane',
    promise: 'R9',
    breaks: 'Others that could go wait behind it.',
    edits: [
      sql(
        'take_within_limits',
        '        CONTINUE;\n      END IF;\n      SELECT j.ctid',
        '        EXIT;\n      END IF;\n      SELECT j.ctid',
      ),
    ],
    tests: ['store/limits'],
  },
  {
    name: 'what waits is forgotten',
    promise: 'R9',
    breaks: 'Jobs over a limit wait for a full look, though there is room.',
    edits: [source('worker/schedule/withheld', 'known: toldOf(tried)', 'known: []')],
    tests: ['worker/limits'],
  },
  {
    name: 'nothing is sifted',
    promise: 'P8',
    breaks: 'What commits late behind a tenant at its limit waits until that has none left.',
    edits: [
      source('worker/discovery/poller', 'await this.#sifter.run(this.#options.poll / FULL_SCAN_RATIO)', ''),
    ],
    tests: ['worker/limits'],
  },
  {
    name: 'what is of a tenant at its limit is taken for known',
    promise: 'P8',
    breaks: 'What such a tenant commits late waits until it has nothing else left.',
    edits: [sql('sift', 'e.known IS NOT NULL AND NOT e.known ? w.id', 'e.known IS NOT NULL AND false')],
    tests: ['worker/limits'],
  },
  {
    name: 'a lane that is read anew for a tenant that has waited',
    promise: 'P7',
    breaks:
      'While an old snapshot is held, each claim for it passes all that others have completed since then.',
    edits: [
      source(
        'worker/schedule/withheld',
        'known.jobs.length === 0 && known.rest ? [known.rest] : []',
        'known.start ?? []',
      ),
    ],
    tests: ['worker/limits-under-snapshot.slow'],
  },
  {
    name: 'a part of a full look without an end',
    promise: 'P7',
    breaks: 'While an old snapshot is held, one call passes all that others have completed since then.',
    edits: [source('worker/schedule/region', 'first(this.#trail.after(rest, steps) ?? to, to)', 'to')],
    tests: ['worker/limits-under-snapshot.slow'],
  },
  {
    name: 'a job that is told twice and taken twice',
    promise: 'R9',
    breaks: 'A claim fails, and the lane stands still for a poll interval.',
    edits: [sql('take_within_limits', 'CONTINUE WHEN _due.id = ANY (_seen);', '')],
    tests: ['store/spots'],
  },
  {
    name: 'a known job that has been put off is taken',
    promise: 'P8',
    breaks: 'A job runs before its time has come in its lane.',
    edits: [
      sql('take_within_limits', '        AND (_due.visit IS NULL OR j.perform_in = _due.perform_in)\n', ''),
    ],
    tests: ['store/spots'],
  },
  {
    name: 'a known job whose row is locked is forgotten',
    promise: 'P8',
    breaks: 'A push into a waiting job of a tenant at its limit puts the job last.',
    edits: [
      sql(
        'take_within_limits',
        '          ORDER BY j.id LIMIT 1\n        ) IS NULL THEN',
        '          ORDER BY j.id LIMIT 1\n        ) IS NOT NULL THEN',
      ),
    ],
    tests: ['store/spots'],
  },
  {
    name: 'a start that is older for whoever has waited',
    promise: 'R9',
    breaks: 'Where claims wait for each other, more rounds begin in a short window than may.',
    edits: [sql('take_within_limits', '_at := clock_timestamp();', '_at := _now;')],
    tests: ['store/limits'],
  },
  {
    name: 'a locked row that takes up a place',
    promise: 'R9',
    breaks: 'Beside a producer’s open transaction, fewer jobs begin than may.',
    edits: [
      sql(
        'take_within_limits',
        '_passed := least(_passed, _due.perform_in);',
        '_passed := least(_passed, _due.perform_in); _free[_queue] := _free[_queue] - 1;',
      ),
    ],
    tests: ['model/model'],
  },
  {
    name: 'starts that are forgotten before their window has passed',
    promise: 'R9',
    breaks: 'Whenever a worker trims, a rate begins anew.',
    edits: [
      sql('old_starts', "o.next_at IS NULL AND o.at <= o.left_at - interval '1 hour'", 'o.next_at IS NULL'),
    ],
    tests: ['store/limits'],
  },
  {
    name: 'starts whose total is needed yet are forgotten',
    promise: 'R9',
    breaks: 'After a worker has trimmed, what has left the window counts again: less begins than may.',
    edits: [sql('old_starts', 'OR o.next_at <= o.left_at', 'OR o.next_at IS NOT NULL')],
    tests: ['store/starts'],
  },
  {
    name: 'starts that are trimmed by limits of a moment ago',
    promise: 'R9',
    breaks:
      'Where a window grows while a worker trims, starts that it covers are gone, and more begin than may.',
    edits: [sql('trim_limits', 'IS DISTINCT FROM _limits[_n];', 'IS DISTINCT FROM _limits[_n] AND false;')],
    tests: ['store/trim-interleaving'],
  },
  {
    name: 'a checkpoint that forgets what is held for long',
    promise: 'R9',
    breaks: 'After some hundred rounds, its place is given to another.',
    edits: [sql('count_holds', 'm.job_id FROM moved m;', 'm.job_id FROM moved m WHERE m.number = _newest;')],
    tests: ['store/holds'],
  },
  {
    name: 'a checkpoint that stays where it is',
    promise: 'P7',
    breaks: 'While an old snapshot is held, each claim reads all holds since then.',
    edits: [
      sql('count_holds', 'IF _newest - _checkpoint + 1 - _kept > greatest(500, _kept) THEN', 'IF false THEN'),
    ],
    tests: ['store/holds'],
  },
  {
    name: 'a newest hold that goes',
    promise: 'P7',
    breaks: 'While an old snapshot is held, a claim reads all holds since then to find the newest.',
    edits: [sql('count_holds', ' AND s.number < _newest), (', '), (')],
    tests: ['store/limits-under-snapshot.slow'],
  },
  {
    name: 'a turn that begins anew with each question',
    promise: 'R9',
    breaks: 'A process that asks often enough never gets a place that others give back.',
    edits: [sql('note_turn', 'coalesce(_former.since, _now)', '_now')],
    tests: ['store/turns'],
  },
]
