import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes that this queue in particular could make, in callers' transactions. */
export const PUSHED: readonly Mutant[] = [
  {
    name: 'a push with a transaction that is none',
    promise: 'P4',
    breaks: 'A client that never began one, or whose COMMIT came first, stores jobs that nothing takes back.',
    edits: [
      sql('put_in_transaction', `_refusal <> 'invalid transaction termination' OR `, ''),
      sql('require_transaction', '    IF _refusal <> _in_a_block THEN\n', '    IF false THEN\n'),
    ],
    tests: ['enqueue/transaction'],
  },
  {
    name: 'a push in another server’s database',
    promise: 'P4',
    breaks: 'Jobs lie where no worker of theirs looks, because a database has the same name.',
    edits: [
      sql('put_in_transaction', '_installation <> @schema@.installation()', 'false'),
      sql('require_transaction', '_installation <> @schema@.installation()', 'false'),
    ],
    tests: ['enqueue/other-database'],
  },
  {
    name: 'a push in a copy of the database',
    promise: 'P4',
    breaks: 'Jobs of one tenant lie in the database of another that was made from the same template.',
    edits: [
      sql('put_in_transaction', '_database <> current_database()', 'false'),
      sql('require_transaction', '_database <> current_database()', 'false'),
    ],
    tests: ['enqueue/other-database'],
  },
  {
    name: 'a transaction known in English alone',
    promise: 'P4',
    breaks: 'A server that speaks another language refuses every push in a transaction.',
    edits: [
      sql(
        'require_transaction',
        `      GET STACKED DIAGNOSTICS _in_a_block = MESSAGE_TEXT;\n`,
        '      NULL;\n',
      ),
    ],
    tests: ['enqueue/transaction'],
  },
  {
    name: 'a client judged by the status it had',
    promise: 'P4',
    breaks: 'A push after a BEGIN that was not awaited is refused.',
    edits: [source('adapters/pg-client', 'isIdle(state) && ', '')],
    tests: ['enqueue/transaction'],
  },
  {
    name: 'a home that is never asked for again',
    promise: 'P4',
    breaks: 'After a restore every push in a transaction is refused until the process starts anew.',
    edits: [source('enqueue/known-home', 'const now = await', 'const now = this.#home ?? await')],
    tests: ['enqueue/other-database'],
  },
  {
    name: 'a transaction to be prepared that notifies',
    promise: 'P4',
    breaks: 'Two-phase commit fails exactly when a worker idles.',
    edits: [sql('wake', `IN ('off', 'false', 'no', '0') THEN`, `IN ('never') THEN`)],
    tests: ['store/wake', 'enqueue/two-phase'],
  },
  {
    name: 'an error with the index of what the middleware made',
    promise: 'R1',
    breaks: 'Where a middleware drops jobs, the caller mends the wrong one.',
    edits: [source('enqueue/call', 'place === -1 ? index : place', 'index')],
    tests: ['enqueue/middleware'],
  },
  {
    name: 'payloads measured as jsonb',
    promise: 'R1',
    breaks:
      'A few KB of numbers unfold to more text than a process can read, which kills one worker after another.',
    edits: [
      sql('enqueue', 'pg_column_size(_payload) > 1300', 'pg_column_size(_payload) > 8388608'),
      sql('put_jobs', 'pg_column_size(i.payload) > 1300', 'pg_column_size(i.payload) > 8388608'),
      sql('pushed_digest', 'pg_column_size(_payload) > 1300', 'pg_column_size(_payload) > 8388608'),
    ],
    tests: ['enqueue/sql', 'enqueue/validation'],
  },
  {
    name: 'the text of an id, made with the owner’s rights',
    promise: 'R1',
    breaks: 'A producer makes a type, and what turns it into text runs as the owner of the schema.',
    edits: [sql('enqueue_any_id', 'LANGUAGE sql AS', 'LANGUAGE sql SECURITY DEFINER AS')],
    tests: ['security/definer'],
  },
  {
    name: 'a former function that is dropped at once',
    promise: 'P3',
    breaks: 'A push that has looked the function up before a migration fails.',
    edits: [sql('enqueue_renamed', "'ALTER FUNCTION %s RENAME TO %I'", "'DROP FUNCTION %s CASCADE'")],
    tests: ['postgres/former-enqueue'],
  },
  {
    name: 'a new form of a function without the grants of the former one',
    promise: 'R1',
    breaks: 'After a migration, producers may no longer push until someone runs `lockstep roles`.',
    edits: [sql('enqueue_renamed', 'a.grantee <> 0 AND', 'false AND')],
    tests: ['security/granted-enqueue'],
  },
  {
    name: 'an array that is taken to start at 1',
    promise: 'P2',
    breaks: 'An array that a function has filled from 0 shifts all payloads by one job, and loses the first.',
    edits: [sql('put_jobs', 'IF array_lower(_payloads, 1) <> 1 OR array_ndims(_payloads) > 1', 'IF false')],
    tests: ['enqueue/sql'],
  },
  {
    name: 'a part of a call that can be committed',
    promise: 'P4',
    breaks: 'A time-out in the middle of a call, a COMMIT all the same, and half of the jobs are there.',
    edits: [
      source('enqueue/joined', 'await refuseTransaction(database, this, transaction).catch(() => {})', ''),
    ],
    tests: ['enqueue/atomic'],
  },
  {
    name: 'an enqueue that ends before what its middleware has begun',
    promise: 'P2',
    breaks:
      'Jobs that enqueue has not waited for are lost with the process, or the transaction, that goes on.',
    edits: [source('enqueue/middleware', 'underWay.outlast(from(0, jobs))', 'from(0, jobs)')],
    tests: ['enqueue/middleware'],
  },
  {
    name: 'a push into whatever transaction is open',
    promise: 'P4',
    breaks: 'What was rolled back is stored by the next who is lent the client, with what he commits.',
    edits: [source('enqueue/joining', '    on.bind()\n', '')],
    tests: ['enqueue/same-transaction'],
  },
  {
    name: 'a push that aborts a stranger’s transaction',
    promise: 'P4',
    breaks: 'A call fails whose caller has gone, and the next who is lent the client can’t commit.',
    edits: [
      sql('refuse_transaction', 'IF pg_current_xact_id_if_assigned() = _transaction THEN', 'IF true THEN'),
    ],
    tests: ['enqueue/same-transaction'],
  },
  {
    name: 'a push in a transaction that waits for another connection',
    promise: 'P4',
    breaks: 'Behind a pooler all connections are in transactions, and each of them waits for one more.',
    edits: [source('enqueue/spare-connection', 'Promise.race([asked, late])', 'asked')],
    tests: ['enqueue/same-transaction'],
  },
  {
    name: 'pushes that go together wait together',
    promise: 'P7',
    breaks: 'A row in somebody’s open transaction holds up pushes of other ids.',
    edits: [source('store/push', 'const SHORT_WAIT = 20', 'const SHORT_WAIT = 0')],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'pushes that wait have all connections',
    promise: 'P7',
    breaks:
      'Some pushes of an id in somebody’s open transaction, and a gateway serves nothing until that ends.',
    edits: [source('store/insistence', 'Math.max(1, Math.min(MOST_TURNS, Math.floor(max / 2)))', 'max')],
    tests: ['enqueue/held', 'consumer/held'],
  },
  {
    name: 'a push that is held up counts for ever',
    promise: 'P7',
    breaks: 'Two open transactions elsewhere, and a process can push nothing.',
    edits: [source('enqueue/push-batcher', 'setTimeout(over, HELD_UP)', 'undefined')],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'one push refuses those that went with it',
    promise: 'P4',
    breaks: 'A caller gets the error of another one’s job.',
    edits: [
      source(
        'enqueue/push-batcher',
        'if (isConnectionFailure(error)) for (const { reject }',
        'if (error) for (const { reject }',
      ),
    ],
    tests: ['enqueue/push-batcher'],
  },
  {
    name: 'pushes that what is sent after them overtakes',
    promise: 'P4',
    breaks: 'A push that nobody awaits is stored in the next transaction of its client.',
    edits: [
      source(
        'enqueue/joining',
        'if (this.#isImmediate(on, push)) {',
        'await undefined\n    if (this.#isImmediate(on, push)) {',
      ),
    ],
    tests: ['enqueue/same-transaction'],
  },
  {
    name: 'a database taken for its transaction',
    promise: 'P4',
    breaks: 'Who passes `db` by mistake is told of a pool that he never sees.',
    edits: [source('adapters/drizzle', "typeof nestedIndex !== 'number'", 'false')],
    tests: ['adapters/transactions'],
  },
  {
    name: 'texts whose quotes end them',
    promise: 'P4',
    breaks: 'A payload with a quotation mark is refused in a bulk, or becomes two.',
    edits: [source('store/through', ".replace(/[\"\\\\]/g, '\\\\$&')", '')],
    tests: ['adapters/transactions'],
  },
  {
    name: 'a refusal that its library’s words hide',
    promise: 'P4',
    breaks:
      'What the server says of a push in Prisma’s transaction reaches nobody, so a queue that is gone is never created anew.',
    edits: [source('adapters/prisma', 'throw toServerError(error)', 'throw error')],
    tests: ['adapters/transactions'],
  },
]
