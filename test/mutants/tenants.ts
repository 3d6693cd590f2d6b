import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes in what decides on the lane of a tenant's jobs. */
export const TENANTS: readonly Mutant[] = [
  {
    name: 'a rule that matches at its threshold',
    promise: 'tenants',
    breaks: 'A tenant is sent to the slow lane one push too early.',
    edits: [sql('lanes_of', 'c.pushed[e.n] + p.nth >', 'c.pushed[e.n] + p.nth >=')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'the first rule that matches decides',
    promise: 'tenants',
    breaks: 'A milder rule hides a stricter one.',
    edits: [sql('lanes_of', 'ORDER BY e.n DESC LIMIT 1', 'ORDER BY e.n LIMIT 1')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'jobs that name a lane count',
    promise: 'tenants',
    breaks: 'Whoever chooses lanes is throttled for it.',
    edits: [
      sql(
        'lanes_of',
        "  WHERE i.tenant <> '' AND i.lane IS NULL GROUP BY i.tenant;",
        "  WHERE i.tenant <> '' GROUP BY i.tenant;",
      ),
    ],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'pushes of one tenant that wait for each other',
    promise: 'P7',
    breaks: 'One open transaction stops all producers of its tenant.',
    edits: [
      sql(
        'lanes_of',
        '  INSERT INTO @schema@.tenant_pushes',
        '  PERFORM pg_advisory_xact_lock(hashtext(_tenants[1]));\n  INSERT INTO @schema@.tenant_pushes',
      ),
    ],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'the first of several lanes counts',
    promise: 'tenants',
    breaks: 'A tenant that two transactions have met at once has two lanes, and two shares.',
    edits: [
      sql(
        'tenant_lane',
        'tenant = _tenant COLLATE "C" ORDER BY t.number DESC',
        'tenant = _tenant COLLATE "C" ORDER BY t.number',
      ),
    ],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a lane that is taken is given again',
    promise: 'tenants',
    breaks: 'Tenants share lanes while others are empty, and a small one waits behind a large one.',
    edits: [sql('give_tenant_lanes', '_counts[l.place] = 0 AND ', '')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a lane that ends in dead rows',
    promise: 'P7',
    breaks:
      'While an old snapshot is held, each look reads all lanes that tenants have given back since then.',
    edits: [
      sql('trim_tenant_lanes', 'GROUP BY g.queue_id, g.lane\n', 'GROUP BY g.queue_id, g.lane HAVING false\n'),
    ],
    tests: ['store/tenant-lanes-under-snapshot'],
  },
  {
    name: 'pushes that are forgotten before their window has passed',
    promise: 'tenants',
    breaks: 'Every ten minutes, whoever pushes much is quick again.',
    edits: [sql('trim_tenants', "(q.fairness->>'window')::pg_catalog.float8", '0')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a dead payload without its tenant',
    promise: 'tenants',
    breaks: 'What comes back from the morgue belongs to nobody.',
    edits: [sql('bury_failed', 'clock_timestamp(), j.tenant', 'clock_timestamp(), NULL')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a job that waits gets the tenant of what comes back',
    promise: 'tenants',
    breaks: 'A job becomes someone else’s, and counts for their limits.',
    edits: [
      sql(
        'requeue',
        'tenant = CASE WHEN j.id = ANY (_made) THEN r.tenant ELSE j.tenant END',
        'tenant = coalesce(j.tenant, r.tenant)',
      ),
    ],
    tests: ['enqueue/tenants', 'model/model'],
  },
  {
    name: 'jobs of one call that count as one',
    promise: 'tenants',
    breaks: 'Whoever pushes a thousand jobs at once stays in the quick lane.',
    edits: [sql('lanes_of', 'c.pushed[e.n] + p.nth >', 'c.pushed[e.n] + 1 >')],
    tests: ['enqueue/tenants', 'model/model'],
  },
  {
    name: 'a producer that replaces the rules of a worker',
    promise: 'tenants',
    breaks: 'A producer of the release before undoes the rules of the one that is rolled out.',
    edits: [sql('add_fairness', ' AND q.fairness IS NULL', '')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a newcomer that shares with anyone',
    promise: 'tenants',
    breaks:
      'Where all lanes are taken, a small tenant waits behind a large one, though others have nothing to do.',
    edits: [sql('give_tenant_lanes', 'array_agg(ceil(', 'array_agg(0 * ceil(')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a newcomer that looks for the oldest job of a lane',
    promise: 'P7',
    breaks:
      'While an old snapshot is held, a push reads all that tenants’ jobs have left in the index since then.',
    edits: [
      sql(
        'give_tenant_lanes',
        'SELECT t.waits[n] AS seconds, t.tenants[n] AS tenant FROM told t ORDER BY 1 DESC LIMIT 1',
        `SELECT extract(epoch FROM clock_timestamp() - min(j.perform_in))::integer AS seconds, min(j.tenant) AS tenant
         FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.shard IN (0, 1) AND j.lane = -n`,
      ),
    ],
    tests: ['store/tenant-lanes-under-snapshot'],
  },
  {
    name: 'a lane with what is left of another tenant',
    promise: 'tenants',
    breaks: 'A newcomer waits behind a backlog, though other lanes are empty.',
    edits: [sql('give_tenant_lanes', ' AND _grades[l.place] = 0', '')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'another lane each hour for one that has piled up a lot',
    promise: 'tenants',
    breaks: 'After some hours, a tenant with a backlog has the share of many.',
    edits: [sql('trim_tenant_lanes', 'HAVING count(DISTINCT t.tenant) > 1', '')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'waits that count for an hour',
    promise: 'tenants',
    breaks: 'Newcomers avoid lanes in which nothing waits any more, and share those that have filled up.',
    edits: [sql('give_tenant_lanes', "_now - interval '10 s'", "_now - interval '1 h'")],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'nobody tells how long tenants’ jobs have waited',
    promise: 'tenants',
    breaks: 'Where all lanes are taken, a small tenant waits behind a large one.',
    edits: [source('worker/maintenance/tenant-waits', 'return all.length > 0 &&', 'return false &&')],
    tests: ['worker/tenants', 'consumer/tenants'],
  },
  {
    name: 'lanes given back that hold jobs of a later time',
    promise: 'tenants',
    breaks: 'Whoever gets such a lane waits behind all that another has scheduled, once it is due.',
    edits: [source('worker/schedule/tenant-waits', 'oldest === NEVER', 'oldest > now')],
    tests: ['worker/tenants'],
  },
  {
    name: 'a tenant that stays behind the backlog of another',
    promise: 'tenants',
    breaks: 'Where many share lanes, an import holds up some of the others for as long as it takes.',
    edits: [sql('tenant_lane', 'w.seconds < 5', 'true')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'a tenant that leaves its own backlog behind',
    promise: 'tenants',
    breaks: 'One that piles up much gets lane after lane, and the share of many.',
    edits: [sql('give_tenant_lanes', `IN ('', _hash::text)`, `IN ('')`)],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'tenants that get each other’s lanes',
    promise: 'tenants',
    breaks:
      'Of several tenants in one call, one waits behind another’s backlog, though it has a lane of its own.',
    edits: [sql('lanes_of', "PARTITION BY u.tenant <> '' AND u.lane IS NULL ORDER", 'ORDER')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'newcomers of one call that choose as if each were alone',
    promise: 'tenants',
    breaks: 'An import for many new tenants puts most of them into few lanes.',
    edits: [sql('give_tenant_lanes', '    _counts[_best] := _counts[_best] + 1;\n', '')],
    tests: ['enqueue/tenants'],
  },
  {
    name: 'consumers that take what has waited longest, whoever it belongs to',
    promise: 'tenants',
    breaks: 'Over HTTP, everybody waits behind an import.',
    edits: [source('consumer/shares', 'if (groups.length === 1) return', 'return')],
    tests: ['consumer/tenants'],
  },
  {
    name: 'no looks while a queue has the slots that it may have',
    promise: 'P8',
    breaks: 'In a queue with `concurrency`, a newcomer waits for the next poll.',
    edits: [
      source('worker/discovery/poller', ': timetable.hasWaiting) await', ': timetable.hasDue) await'),
      source(
        'worker/discovery/poller',
        'this.#options.timetable.hasWaiting ? BUSY_PAUSE',
        'this.#options.timetable.hasDue ? BUSY_PAUSE',
      ),
    ],
    tests: ['worker/tenants'],
  },
  {
    name: 'a full queue whose timers are cleared stays full',
    promise: 'P8',
    breaks:
      'A worker whose lock connection breaks while a limit has no place never claims from the queue again.',
    edits: [source('worker/schedule/full-queues', '      served.withheldLanes.open()\n', '')],
    tests: ['worker/limits'],
  },
  {
    name: 'the tenant that was claimed last is told',
    promise: 'tenants',
    breaks:
      'One that piles up much leaves its lane because of a neighbour’s job, and gets the share of many.',
    edits: [
      source('worker/schedule/majority', 'else if (this.#votes > 0) this.#votes -= 1\n    else', 'else'),
    ],
    tests: ['worker/tenants', 'worker/majority'],
  },
  {
    name: 'lanes given back by who has just begun to serve their queue',
    promise: 'tenants',
    breaks: 'A deploy gives lanes back whose jobs nobody has told of yet.',
    edits: [
      source('worker/maintenance/tenant-lanes', 'led.filter((queueId) => this.#known.has(queueId))', 'led'),
    ],
    tests: ['worker/tenants'],
  },
  {
    name: 'lanes given back of queues that nobody serves',
    promise: 'tenants',
    breaks:
      'While workers are away, a tenant that goes on pushing gets lane after lane, and the share of many.',
    edits: [sql('trim_tenant_lanes', '_queue_ids IS NULL OR', 'true OR')],
    tests: ['enqueue/tenants', 'worker/tenants'],
  },
  {
    name: 'a tenant that begins anywhere',
    promise: 'tenants',
    breaks: 'One that imports in many transactions at once takes all lanes, and everybody waits behind it.',
    edits: [
      sql('give_tenant_lanes', 'hashtext(_tenants[_n] COLLATE "C")', '(random() * 31)::pg_catalog.int4'),
    ],
    tests: ['enqueue/tenants'],
  },
]
