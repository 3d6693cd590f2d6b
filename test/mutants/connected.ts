import { type Mutant, source, sql } from './mutant.ts'

const DURABLY = `  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
`

/** What this queue in particular could get wrong: in its sessions. */
export const CONNECTED: readonly Mutant[] = [
  {
    name: 'settings in sessions that are others’ too',
    promise: 'P1',
    breaks:
      'Behind a pooler, the application’s own transactions run at the worker’s isolation level, and still do when it is gone.',
    edits: [source('postgres/session', 'if (!shared) await', 'await')],
    tests: ['worker/pooled', 'worker/lent-session'],
  },
  {
    name: 'statements at a pooler’s own isolation level',
    promise: 'P7',
    breaks: 'What a worker reads is a part of conflicts that the application’s transactions fail with.',
    edits: [
      source('postgres/open-database', `if (shared && isolation !== 'read committed') database.wrap()`, ''),
    ],
    tests: ['worker/pooled'],
  },
  {
    name: 'a claim that a crash forgets',
    promise: 'P1',
    breaks:
      'Where synchronous_commit is off, a job is claimed again after a crash of the server while its handler runs.',
    edits: [sql('claim', DURABLY, '')],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'the end of a round that a crash forgets',
    promise: 'P3',
    breaks:
      'Where synchronous_commit is off, a crash of the server leaves a job claimed by a process that knows nothing of it.',
    edits: [sql('hold', DURABLY, '')],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'a lease that a crash shortens',
    promise: 'P1',
    breaks:
      'Where synchronous_commit is off, a crash of the server takes a renewal back that the process counts on.',
    edits: [
      source('postgres/session', `'synchronous_commit', 'on', false`, `'synchronous_commit', 'off', false`),
    ],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'sessions that end when they have nothing to do',
    promise: 'P8',
    breaks:
      'Where idle_session_timeout is set, a worker loses its locks, and with them all shards, each time it has rested.',
    edits: [source('postgres/session', `  'SET idle_session_timeout = 0',\n`, '')],
    tests: ['worker/server-timeouts'],
  },
]
