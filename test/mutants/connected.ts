import { type Mutant, source, sql } from './mutant.ts'

const DURABLY = `  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true);
`
const ONLY_WHERE_OFF = `  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
`

/** Mistakes that this queue in particular could make, in its sessions. */
export const CONNECTED: readonly Mutant[] = [
  {
    name: 'settings in sessions that are others’ too',
    promise: 'P1',
    breaks:
      'Behind a pooler, the application’s own transactions run at the worker’s isolation level, and still do when it is gone.',
    edits: [source('postgres/session', 'if (!shared) {', 'if (shared || !shared) {')],
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
    edits: [sql('lock_claims', DURABLY, '')],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'a lease that a crash shortens',
    promise: 'P1',
    breaks:
      'Where synchronous_commit is off, a crash of the server takes a renewal back that the process counts on.',
    edits: [source('postgres/session', '[...SETTINGS, durably(commit)]', 'commit ? SETTINGS : []')],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'a claim, and its end, that are forgotten where the default changes before the COMMIT',
    promise: 'P1',
    breaks:
      'Where synchronous_commit is turned off while a claim is under way, a crash of the server forgets it.',
    edits: [sql('claim', DURABLY, ONLY_WHERE_OFF), sql('lock_claims', DURABLY, ONLY_WHERE_OFF)],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'a lease in a session that follows the default',
    promise: 'P1',
    breaks:
      'Where synchronous_commit is turned off while a worker runs, a crash of the server shortens its lease.',
    edits: [
      source(
        'postgres/session',
        '[...SETTINGS, durably(commit)]',
        "commit === 'off' ? [...SETTINGS, durably(commit)] : SETTINGS",
      ),
    ],
    tests: ['worker/p1-durable'],
  },
  {
    name: 'sessions that end when they have nothing to do',
    promise: 'P8',
    breaks:
      'Where idle_session_timeout is set, a worker loses its locks, and with them all shards, each time it has rested.',
    edits: [source('postgres/connection', 'await client.query(setting)', 'void setting')],
    tests: ['worker/stranded'],
  },
  {
    name: 'the application’s time-outs for calls of a worker',
    promise: 'P7',
    breaks:
      'A time-out made for the application’s statements ends a worker’s looks, and its locks with them.',
    edits: [source('postgres/session', `if (use === 'lent') return`, 'if (use) return')],
    tests: ['worker/server-timeouts'],
  },
  {
    name: 'a silent connection that is waited for',
    promise: 'P8',
    breaks: 'A worker that stops, or can’t start, while the network is silent hangs for many minutes.',
    edits: [source('postgres/connection', 'client.connection?.stream.destroy()', '{}')],
    tests: ['worker/stranded.slow'],
  },
  {
    name: 'a start that fails while handlers run',
    promise: 'P1',
    breaks: 'Where the last call of a start fails, the worker’s claims are freed beside its own handlers.',
    edits: [
      source(
        'worker/engine',
        'await notify(this.#pools.own, REBALANCE).catch(() => {})',
        'await notify(this.#pools.own, REBALANCE)',
      ),
    ],
    tests: ['worker/start'],
  },
  {
    name: 'a worker without rights that starts',
    promise: 'P8',
    breaks: 'It registers and locks shards, and performs nothing of them.',
    edits: [source('worker/preparation', "  await requireRights(database, 'worker')\n", '')],
    tests: ['security/rights'],
  },
  {
    name: 'a lease that silently can’t be renewed',
    promise: 'P8',
    breaks: 'A worker whose role may not renew loses its lease again and again, and nothing says why.',
    edits: [source('worker/membership/lease-thread', `    if (!failing) tell('unrenewed', error)\n`, '')],
    tests: ['security/rights'],
  },
  {
    name: 'more locks than there is room for',
    promise: 'P8',
    breaks: 'A worker fills the server’s table of locks, and the application’s statements fail with it.',
    edits: [source('worker/assignment/growth', 'await requireLockRoom(', 'void (')],
    tests: ['worker/lock-room.slow'],
  },
  {
    name: 'a session to be ended named as an extension’s function may take it',
    promise: 'P8',
    breaks: 'With Citus installed the sessions of stopped processes are never ended: they keep their shards.',
    edits: [
      source(
        'store/process',
        'pg_catalog.pg_terminate_backend(o.pid::integer)',
        'pg_terminate_backend(o.pid::bigint)',
      ),
    ],
    tests: ['postgres/citus'],
  },
  {
    name: 'tables that Citus has distributed',
    promise: 'P3',
    breaks: 'Workers go on where neither row locks nor fences are what the protocol rests on.',
    edits: [source('postgres/distribution', 'if (tables.length === 0) return', 'if (tables) return')],
    tests: ['postgres/citus'],
  },
  {
    name: 'a full table of locks filled again and again',
    promise: 'P8',
    breaks: 'A worker whose shards find no room fails the application’s statements at each comparison.',
    edits: [
      source('worker/assignment/shard-locks', 'performance.now() < this.#full.until', '(false as boolean)'),
    ],
    tests: ['worker/lock-room.slow'],
  },
  {
    name: 'a comparison that nobody makes once more',
    promise: 'P8',
    breaks:
      'What a worker is told while it compares, such as a later release, it learns at its next comparison.',
    edits: [source('worker/assignment/assigner', '    this.#soon = true\n', '')],
    tests: ['worker/outdated'],
  },
  {
    name: 'a change that is seen and not told',
    promise: 'P8',
    breaks:
      'A process whose turn is far serves shards that are others’, or leaves its own to nobody, for seconds.',
    edits: [
      source(
        'worker/assignment/news',
        'if (this.#owed && (await this.#tell(changed(state)))) {',
        'if (this.#owed) {',
      ),
    ],
    tests: ['worker/turns.slow'],
  },
  {
    name: 'shards that are let go of in silence',
    promise: 'P8',
    breaks: 'A process that misses shards finds those of a batch that has ended at its next comparison.',
    edits: [source('worker/assignment/holdings', '    await onFreed()\n', '    void onFreed\n')],
    tests: ['worker/turns.slow'],
  },
  {
    name: 'a turn that never comes',
    promise: 'P8',
    breaks: 'When the first processes die at once, nobody takes over: the others wait to be told.',
    edits: [
      source(
        'worker/assignment/watch',
        'place < 0) return rebalanceInterval\n',
        'place < 0) return rebalanceInterval\n  if (place > 1) return 1e9\n',
      ),
    ],
    tests: ['worker/watch', 'processes/kill'],
  },
  {
    name: 'a turn that is waited for by who can’t be told',
    promise: 'P8',
    breaks: 'A process whose wake-up connection is silent learns of the others’ deaths seconds later.',
    edits: [source('worker/assignment/watch', 'own || !hears || place < 0', 'own || place < 0')],
    tests: ['worker/watch'],
  },
  {
    name: 'a session that is ended at first sight',
    promise: 'P8',
    breaks: 'A process that stops, or becomes somebody new, loses its session and with it its shards.',
    edits: [
      source(
        'worker/maintenance/zombies',
        'over: at - since >= PATIENCE * this.#rebalanceInterval',
        'over: true',
      ),
    ],
    tests: ['worker/zombies'],
  },
  {
    name: 'a session that is ended by its number alone',
    promise: 'P8',
    breaks:
      'A number that has become another session’s since: the application loses a connection that is in use.',
    edits: [source('store/process', ' AND o."processId" = $2::bigint', ' OR $2::bigint IS NULL')],
    tests: ['worker/zombies'],
  },
  {
    name: 'a paused queue that slots ask for',
    promise: 'P7',
    breaks: 'Each free slot asks for jobs that it can’t get, once for each of its lanes.',
    edits: [
      source('worker/schedule/admission', 'this.#queueIds.has(queueId) ? Number', 'queueId < 0 ? Number'),
    ],
    tests: ['admin/queues'],
  },
  {
    name: 'maintenance that all processes do at once',
    promise: 'P7',
    breaks: 'Each of a crowd of processes does what one of them does already.',
    edits: [source('store/maintenance', 'row!.locked ? work() : undefined', 'row ? work() : undefined')],
    tests: ['worker/maintenance'],
  },
  {
    name: 'a full look that is lost with its comparison',
    promise: 'P8',
    breaks: 'What dead processes left waits for the next look, where the server did not answer to one.',
    edits: [
      source(
        'worker/discovery/poller',
        '    this.#goesAlong = false\n    this.fullScanSoon()\n',
        '    this.#goesAlong = false\n',
      ),
    ],
    tests: ['worker/poller'],
  },
  {
    name: 'a full look that takes the place of what is asked for',
    promise: 'P8',
    breaks: 'Shards that came while a look was under way, which did not look at them, wait for the next one.',
    edits: [
      source(
        'worker/discovery/poller',
        '    this.#options.looks.find(heads)\n  }\n\n  /** It has failed',
        '    this.#options.looks.find(heads)\n    this.#nextFullScan = performance.now() + this.#options.poll\n  }\n\n  /** It has failed',
      ),
    ],
    tests: ['worker/poller'],
  },
  {
    name: 'a transaction that stays open to its former handler',
    promise: 'P3',
    breaks:
      'What nobody awaited is told as written, and runs in the transaction of another job, which may fail by it.',
    edits: [source('worker/performing/own-transaction', 'this.#over = true', 'void 0')],
    tests: ['worker/lent-transaction'],
  },
  {
    name: 'a transaction whose session a handler gives away',
    promise: 'P3',
    breaks:
      'A function of the application releases the client it is given, and two handlers write in one transaction.',
    edits: [
      source(
        'worker/performing/own-transaction',
        '      release: () => {\n        throw kept()\n      },\n',
        '',
      ),
    ],
    tests: ['worker/lent-transaction'],
  },
  {
    name: 'a silent connection’s session that lives on',
    promise: 'P8',
    breaks:
      'Where a proxy goes on answering for a connection that is silent, its transaction keeps the rows of a completion.',
    edits: [
      source(
        'worker/pools',
        'if (isConnectionFailure(error)) this.stranded.add(client)',
        'void [error, client]',
      ),
    ],
    tests: ['worker/stranded.slow'],
  },
  {
    name: 'a silent lock session that lives on',
    promise: 'P8',
    breaks:
      'Where a proxy goes on answering for a lock connection that is silent, its session keeps shards that nobody serves.',
    edits: [source('worker/engine', 'this.#pools.stranded.add(session)', 'void session')],
    tests: ['worker/stranded.slow'],
  },
  {
    name: 'a statement that is ended with its connection',
    promise: 'P8',
    breaks: 'What takes the server longer than its call may last is undone each time, and never done.',
    edits: [source('store/process', `a.state IS DISTINCT FROM 'active' AND a."startedAt"`, 'a."startedAt"')],
    tests: ['worker/stranded'],
  },
  {
    name: 'locks and lease in another database than the claims',
    promise: 'P1',
    breaks:
      'A process has the number of another one: when that ends, its claims are free beside its handlers.',
    edits: [source('worker/engine', '    await this.#locks.requireDatabase(this.#pools.own)\n', '')],
    tests: ['worker/start'],
  },
  {
    name: 'given-up sessions forgotten when a login fails',
    promise: 'P7',
    breaks: 'Rows that a handler’s transaction has locked stay locked, since nobody ends its session.',
    edits: [
      source(
        'worker/membership/stranded',
        'if (!mayNot) this.#failed(backends, error)\n',
        `if (!mayNot && !hasCode(error, 'LOCKSTEP_AUTHENTICATION')) this.#failed(backends, error)\n`,
      ),
    ],
    tests: ['worker/stranded'],
  },
  {
    name: 'a given-up session that can’t be seen, and that nobody hears of',
    promise: 'P8',
    breaks: 'A session of another role keeps shards, and no log says which.',
    edits: [
      source(
        'store/process',
        'coalesce(a."startedAt" = b."startedAt", true)',
        'a."startedAt" = b."startedAt"',
      ),
    ],
    tests: ['worker/stranded'],
  },
  {
    name: 'a load that was not sent, counted as a crash',
    promise: 'R10',
    breaks: 'While the server has no connection left, large jobs die for it.',
    edits: [source('worker/performing/loading', 'if (wasNotSent(error))', 'if (false)')],
    tests: ['worker/loading'],
  },
  {
    name: 'sessions asked for again and again where none is left',
    promise: 'P8',
    breaks: 'While two releases run side by side, each slot logs in hundreds of times a second, in vain.',
    edits: [source('postgres/modest-pool', '!hasCode(error, NONE_LEFT) || !mayWait', 'error')],
    tests: ['postgres/pool', 'security/few-sessions'],
  },
  {
    name: 'a lease whose thread keeps its first token',
    promise: 'P1',
    breaks: 'A lease thread that connects anew with a token that is no longer good loses the lease for good.',
    edits: [
      source(
        'worker/membership/lease-session',
        'password: () => main.password(limits.limit)',
        'password: () => (Object.assign(main, { first: Reflect.get(main, "first") ?? main.password(limits.limit) }) as any).first',
      ),
    ],
    tests: ['worker/clients/kinds.slow'],
  },
  {
    name: 'an async client that counts for nothing until it is there',
    promise: 'P8',
    breaks: 'A worker whose clients take a moment to create opens more connections than it may.',
    edits: [source('postgres/creating-pool', 'inside._clients.push(place)', '')],
    tests: ['postgres/creating-pool'],
  },
  {
    name: 'another’s session ended by its number alone',
    promise: 'P7',
    breaks: 'A session of the application’s is ended that has got the number of one that is gone.',
    edits: [source('store/process', 'coalesce(a."startedAt" = b."startedAt", true)', 'true')],
    tests: ['worker/stranded'],
  },
  {
    name: 'a completion that may idle before its COMMIT',
    promise: 'P8',
    breaks:
      'Where a worker’s host is gone and a proxy goes on answering for it, its transactions keep the rows of completions.',
    edits: [
      source(
        'store/handler-transaction',
        `set_config('idle_in_transaction_session_timeout', '\${IDLE_TIMEOUT}', true)`,
        'current_setting($$lockstep.round$$)',
      ),
    ],
    tests: ['worker/stranded.slow'],
  },
]
