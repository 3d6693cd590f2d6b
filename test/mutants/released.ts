import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes between two releases, and with what restores and deletions leave. */
export const RELEASED: readonly Mutant[] = [
  {
    name: 'an older release migrates over a newer one',
    promise: 'P3',
    breaks:
      'A process of the old release that starts again while the new one is rolled out takes its functions away.',
    edits: [source('postgres/migrate', '  if (isNewer(release)) {\n', '  if (isNewer(undefined)) {\n')],
    tests: ['postgres/release'],
  },
  {
    name: 'a start on older definitions',
    promise: 'P3',
    breaks: 'A worker calls functions of the release before as if they were its own.',
    edits: [
      source(
        'postgres/release',
        'if (missing.length === 0 && release?.serial === SERIAL) return',
        'if (missing.length === 0) return',
      ),
    ],
    tests: ['postgres/release'],
  },
  {
    name: 'a worker that outlives its release',
    promise: 'P3',
    breaks: 'It goes on claiming with functions that don’t serve it any more, and can store nothing.',
    edits: [
      source(
        'worker/assignment/assigner',
        'if (seen.release && !servesUs(seen.release)) {',
        'if (seen.release && !servesUs(seen.release) && !onOutdated) {',
      ),
    ],
    tests: ['worker/outdated'],
  },
  {
    name: 'a worker that can’t learn that it is outlived',
    promise: 'P3',
    breaks:
      'Where a later release has changed what a comparison reads, it fails for ever, and goes on with functions that don’t serve it.',
    edits: [
      source(
        'worker/assignment/assigner',
        '    if (successor) onOutdated(successor)\n',
        '    void [successor, onOutdated]\n',
      ),
    ],
    tests: ['worker/outdated'],
  },
  {
    name: 'a migration that waits with its lock',
    promise: 'P7',
    breaks: 'Behind a migration that waits for a long SELECT everybody else waits too.',
    edits: [source('postgres/patience', 'const LOCK_TIMEOUT = 150\n', 'const LOCK_TIMEOUT = 0\n')],
    tests: ['postgres/p7-locks'],
  },
  {
    name: 'a migration with nothing to do that runs all the same',
    promise: 'P7',
    breaks: 'Every start of a process that migrates locks every view.',
    edits: [source('postgres/release', '  return row!.same\n', '  return row!.same && false\n')],
    tests: ['postgres/p7-locks'],
  },
  {
    name: 'sequences behind their rows at a start',
    promise: 'P3',
    breaks:
      'After a restore of tables alone a worker begins, and rows of processes that are gone seem its own.',
    edits: [source('worker/preparation', '  await requireSequences(database)\n', '')],
    tests: ['postgres/p3-sequences'],
  },
  {
    name: 'a claim of a process to come',
    promise: 'P3',
    breaks: 'A new process gets the number of one that is gone, whose jobs are never rescued.',
    edits: [source('postgres/sequences', 'processes p), j.claimed_by)', 'processes p))')],
    tests: ['postgres/p3-sequences'],
  },
  {
    name: 'a queue made again, served under its old number',
    promise: 'P8',
    breaks: 'Nobody serves what is pushed into it until all workers have started again.',
    edits: [
      source(
        'worker/assignment/served-queues',
        'if (!row || row.queueId === served.queueId) return served',
        'if (row || !row) return served',
      ),
    ],
    tests: ['worker/remade-queue'],
  },
  {
    name: 'a flag for a queue that is gone',
    promise: 'P8',
    breaks: 'Producers of a queue made again wake nobody.',
    edits: [
      source('worker/discovery/poller', '      if (this.#flag.isOfOthers) await this.#lowerFlag(0)\n', ''),
    ],
    tests: ['worker/remade-queue'],
  },
  {
    name: 'a queue deleted beside open pushes',
    promise: 'P3',
    breaks: 'A push commits jobs of a queue that is gone: nobody ever sees them.',
    edits: [source('store/queue-contents', 'IN ACCESS EXCLUSIVE MODE', 'IN ACCESS SHARE MODE')],
    tests: ['admin/delete-queue'],
  },
  {
    name: 'a queue deleted in work',
    promise: 'R11',
    breaks: 'The row of a job goes while its handler runs, and its next push runs beside it.',
    edits: [
      source('admin/deletion', 'if (working > 0 || servedBy.length > 0) {', 'if (servedBy.length > 0) {'),
    ],
    tests: ['admin/delete-queue'],
  },
  {
    name: 'a growth that shrinks',
    promise: 'R8',
    breaks:
      'Of two releases that start side by side the one with fewer shards wins, and what waits in the others moves.',
    edits: [sql('grow_queue', ' AND q.shards < _shards;', ';')],
    tests: ['store/growth'],
  },
  {
    name: 'a queue that grows to a default',
    promise: 'R8',
    breaks:
      'A definition that names no shards gives a queue more than anybody asked for, as a release changes them.',
    edits: [
      source('worker/assignment/growth', 'definition?.namedShards ?? shards', 'definition?.shards ?? shards'),
    ],
    tests: ['worker/growth'],
  },
  {
    name: 'a growth without room for its locks',
    promise: 'R8',
    breaks: 'A start that is refused leaves a queue that no worker can serve any more.',
    edits: [source('worker/assignment/growth', 'sum + Math.max(shards, defined)', 'sum + shards')],
    tests: ['worker/lock-room.slow'],
  },
]
