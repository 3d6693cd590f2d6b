import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes of the HTTP API. */
export const SERVED: readonly Mutant[] = [
  {
    name: 'an idempotency key stored without its jobs',
    promise: 'P3',
    breaks:
      'A push whose connection breaks has used up its key: sent again, it is answered as if it were stored, and is lost.',
    edits: [source('store/keys', '[holder, key, digest, stored], tx)', '[holder, key, digest, stored])')],
    tests: ['http/api/idempotency'],
  },
  {
    name: 'an idempotency key that is read and not locked',
    promise: 'P4',
    breaks: 'It is trimmed between the two, and its request is told that there is no such push.',
    edits: [
      sql(
        'note_key',
        `DO UPDATE SET digest = excluded.digest, stored = excluded.stored, noted_at = excluded.noted_at
    WHERE k.noted_at <= clock_timestamp() - interval '24 hours';`,
        'DO NOTHING;',
      ),
    ],
    tests: ['http/api/idempotency'],
  },
  {
    name: 'an idempotency key that answers for other jobs',
    promise: 'P3',
    breaks: 'Whoever uses a key twice by mistake loses the second push.',
    edits: [source('enqueue/once', '!noted.digest.equals(key.digest)', 'false')],
    tests: ['http/api/idempotency'],
  },
  {
    name: 'an idempotency key that is everybody’s',
    promise: 'P3',
    breaks: 'Two services count from one, and the pushes of the second are lost.',
    edits: [source('http/api/access/tokens', `\`token \${digest.toString('hex')}\``, "'token'")],
    tests: ['http/api/idempotency'],
  },
  {
    name: 'keys trimmed while somebody uses them again',
    promise: 'P7',
    breaks: 'Maintenance waits for whatever transaction of an application a push waits for.',
    edits: [sql('trim_keys', ' FOR UPDATE SKIP LOCKED', '')],
    tests: ['http/api/idempotency'],
  },
  {
    name: 'two acknowledgements of an id in one call',
    promise: 'P6',
    breaks: 'The late one is refused, and whoever holds the claim is told that it was lost.',
    edits: [source('consumer/settler', '        ({ claim }) => nameOf(claim),\n', '')],
    tests: ['consumer/claim'],
  },
  {
    name: 'a look that learns nothing of the server’s clock',
    promise: 'P8',
    breaks:
      'A claim without wait brings nothing, or a job of a later queue, right after a push that was answered.',
    edits: [source('worker/discovery/looks', '    clock.compare(sight, askedAt, performance.now())\n', '')],
    tests: ['consumer/claim'],
  },
  {
    name: 'how often a job may come read by an older snapshot than the job',
    promise: 'R7',
    breaks:
      'A job that was committed while a claim began is dead after its first delivery, whatever it says.',
    edits: [sql('tries_of', 'LANGUAGE plpgsql\n', 'LANGUAGE plpgsql STABLE\n')],
    tests: ['store/leases'],
  },
  {
    name: 'all jobs loaded that a claim has brought',
    promise: 'P3',
    breaks: 'Their leases end meanwhile, which counts: they die without having been handed to anybody.',
    edits: [source('consumer/taker', 'rounds.slice(0, Math.max(1, first))', 'rounds')],
    tests: ['consumer/large'],
  },
  {
    name: 'a queue that nobody has looked into before the next',
    promise: 'P8',
    breaks: 'A claim of several queues takes what is known to be due, and passes what was pushed before.',
    edits: [{ ...source('consumer/taker', 'place > request.looked', 'false'), times: 2 }],
    tests: ['consumer/claim'],
  },
  {
    name: 'a deleted token that is remembered',
    promise: 'P6',
    breaks: 'Who was locked out goes on.',
    edits: [source('http/api/access/known-tokens', 'const FRESH = 900\n', 'const FRESH = 90_000\n')],
    tests: ['http/api/tokens'],
  },
  {
    name: 'queues of a body that nobody checks',
    promise: 'P6',
    breaks: 'A token for one queue settles the claims of all.',
    edits: [source('http/api/access/access', 'queues.includes(queue)) && may', 'true) && may')],
    tests: ['http/api/tokens'],
  },
  {
    name: 'jobs of a client that has gone',
    promise: 'P8',
    breaks: 'A client goes away just as its jobs are claimed, and nobody gets them before their leases end.',
    edits: [source('http/api/routes/claim', 'if (signal.aborted) await giveBack(tools, jobs)', '')],
    tests: ['http/api/claim'],
  },
  {
    name: 'digits that JavaScript drops',
    promise: 'R2',
    breaks: 'Of two payloads that differ in the last digits of a number, one is lost.',
    edits: [source('http/api/body', 'hasNumbersToKeep(member) ? new JsonText(member) : value', 'value')],
    tests: ['http/api/enqueue'],
  },
  {
    name: 'an acknowledgement that takes what was pushed since',
    promise: 'P5',
    breaks: 'What is pushed while the round is in work expires with it, and nobody is ever handed it.',
    edits: [sql('expire_leased', ' AND p.fence < _fence\n', '\n')],
    tests: ['store/leases'],
  },
  {
    name: 'a respawn that takes what others have moved',
    promise: 'R5',
    breaks:
      'A job that somebody else requeues at this moment has one try left, and its place in the order changes.',
    edits: [sql('respawn', 'EXIT WHEN _count = cardinality(_ids);', 'EXIT;')],
    tests: ['store/respawn'],
  },
  {
    name: 'reply queues that go without a word',
    promise: 'P8',
    breaks: 'Who waits for the next reply waits under a number that is gone, for up to ten seconds.',
    edits: [sql('trim_reply_queues', "    PERFORM pg_notify(@channel@, 'rebalance');\n", '    NULL;\n')],
    tests: ['consumer/claim'],
  },
  {
    name: 'a push that does not hold its reply queue',
    promise: 'P3',
    breaks: 'The queue goes before the push is committed, and its job belongs to no queue.',
    edits: [
      sql('enqueue', ' AND (NOT @schema@.is_reply_queue(_queue) OR @schema@.hold_queue(q.queue_id))', ''),
    ],
    tests: ['store/reply-queues'],
  },
  {
    name: 'a push of many that does not hold its reply queue',
    promise: 'P3',
    breaks: 'The queue goes before the push is committed, and its jobs belong to no queue.',
    edits: [
      sql(
        'enqueue_many',
        ' AND (NOT @schema@.is_reply_queue(_queue) OR @schema@.hold_queue(q.queue_id))',
        '',
      ),
    ],
    tests: ['store/reply-queues'],
  },
  {
    name: 'reply queues that are not looked into once they are locked',
    promise: 'P3',
    breaks: 'What was pushed since the first look belongs to no queue.',
    edits: [sql('trim_reply_queues', '  _old := @schema@.unused_reply_queues(_old, _most);\n', '')],
    tests: ['store/reply-queues'],
  },
  {
    name: 'an acknowledgement that looks at its job once',
    promise: 'P6',
    breaks: 'A job that is deleted over lmstfy’s API at the moment it is claimed comes again after its ttr.',
    edits: [source('http/lmstfy/pool', 'const MOST_LOOKS = 10', 'const MOST_LOOKS = 1')],
    tests: ['http/lmstfy/interrupted'],
  },
  {
    name: 'a request behind the last answer of its connection is performed',
    promise: 'P4',
    breaks: 'Its client gets no answer, sends it again, and has pushed twice.',
    edits: [source('http/malformed', 'if (isEnding(socket))', 'if (false as boolean)')],
    tests: ['http/server'],
  },
  {
    name: 'every connection whose body comes after the answer ends',
    promise: 'P7',
    breaks: 'A client whose connection stays open waits for ever for its next answer.',
    edits: [
      source(
        'http/from-node',
        'if (isCutOff) endsAfterAnswer(incoming.socket)',
        'endsAfterAnswer(incoming.socket)',
      ),
    ],
    tests: ['http/server'],
  },
]
