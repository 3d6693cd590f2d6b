import { type Mutant, source, sql } from './mutant.ts'

/** Mistakes about which processes are alive. */
export const LEASED: readonly Mutant[] = [
  {
    name: 'a lease judged by the server’s clock',
    promise: 'P1',
    breaks: 'Somebody sets the clock half a minute ahead, and each job in work gets a second handler.',
    edits: [
      sql(
        'is_gone',
        'WHERE p.process_id = _process_id;',
        'WHERE p.process_id = _process_id AND p.expires_at > clock_timestamp();',
      ),
    ],
    tests: ['store/rescue', 'worker/p1-server-clock'],
  },
  {
    name: 'a silent process removed whatever its renewals',
    promise: 'P1',
    breaks: 'A worker that stood still for a lease takes from the others what they have in work.',
    edits: [sql('remove_silent', ' AND p.renewal = seen.renewal\n', '\n')],
    tests: ['store/rescue'],
  },
  {
    name: 'silence counted since a process was first seen',
    promise: 'P1',
    breaks: 'A process is removed when it is as old as its lease, however often it was renewed.',
    edits: [
      source(
        'store/silence',
        'last?.renewal === renewal ? last : { renewal, lease, since: at }',
        '{ renewal, lease, since: last?.since ?? at }',
      ),
    ],
    tests: ['store/silence', 'worker/p1-server-clock'],
  },
  {
    name: 'a renewal that looks like the last one',
    promise: 'P1',
    breaks: 'Nobody can tell who is alive.',
    edits: [source('store/process', 'SET renewal = gen_random_uuid(), expires_at', 'SET expires_at')],
    tests: ['store/rescue'],
  },
  {
    name: 'a lease that hangs on what its process says of itself',
    promise: 'P1',
    breaks: 'A report that can’t be stored costs the process its membership, again and again.',
    edits: [
      source(
        'worker/membership/lease-thread',
        `  } catch (error) {
    const alive = await renewLeases(on, schema, renewing, lease)
`,
        `  } catch (error) {
    throw error
    const alive = await renewLeases(on, schema, renewing, lease)
`,
      ),
    ],
    tests: ['worker/process-report'],
  },
  {
    name: 'death seen with the eyes of the statement',
    promise: 'P1',
    breaks: 'A claim that was held up takes a job from a process that has registered meanwhile.',
    edits: [sql('is_gone', 'plpgsql VOLATILE', 'plpgsql STABLE')],
    tests: ['store/rescue'],
  },
  {
    name: 'a claim by a process that was removed',
    promise: 'P1',
    breaks: 'Its claim is anybody’s at once: two handlers run for one id.',
    edits: [sql('claim', '  IF NOT FOUND THEN\n    RETURN;\n  END IF;\n', '')],
    tests: ['store/rescue'],
  },
  {
    name: 'dead processes left to who works',
    promise: 'R11',
    breaks: 'Where no worker runs, nobody can delete what a dead one had in work.',
    edits: [source('admin/jobs', `        await removeDeadProcesses(database, name, settings.signal)\n`, '')],
    tests: ['admin/dead-processes'],
  },
  {
    name: 'what only seems dead removed by hand',
    promise: 'P1',
    breaks: 'With a wrong clock, a person’s delete takes jobs from under their handlers.',
    edits: [source('admin/dead-processes', 'const over = silence.over(now)', 'const over = seemDead')],
    tests: ['admin/dead-processes'],
  },
  {
    name: 'fences that go back with the server',
    promise: 'P6',
    breaks: 'After a failover that lost some WAL, outside systems that compare fences refuse valid handlers.',
    edits: [sql('claim', `IS DISTINCT FROM '@schema@' THEN`, `= 'never' THEN`)],
    tests: ['postgres/p6-timeline'],
  },
  {
    name: 'each one lifts the fences anew',
    promise: 'P6',
    breaks: 'Where many workers connect after a failover, numbers are used up by the billion.',
    edits: [
      sql('note_timeline', '  UPDATE @schema@.timeline SET system = _system, timeline = _timeline;\n', ''),
    ],
    tests: ['postgres/p6-timeline'],
  },
  {
    name: 'numbers of processes that go back with the server',
    promise: 'P1',
    breaks: 'A process registers with the number of one that lives, and both renew one lease.',
    edits: [sql('note_timeline', 's.last_value + 1000)', 's.last_value)')],
    tests: ['postgres/p6-timeline'],
  },
  {
    name: 'a lease lengthened for a row that was not renewed',
    promise: 'P1',
    breaks: 'A membership that joined while a renewal was under way ends at the server before it ends here.',
    edits: [
      source(
        'worker/membership/lease-thread',
        'if (expected.length < identities.length) return renewIn(0)',
        'if (expected.length === 0 && identities.length > 0) return renewIn(0)',
      ),
    ],
    tests: ['worker/lease-thread.slow'],
  },
  {
    name: 'a new lease beside handlers of the old one',
    promise: 'P1',
    breaks: 'A registration that comes after the end of its lease lets the process outlive it with handlers.',
    edits: [
      source(
        'worker/membership/lease-thread',
        'if (joins && identities.length === 0)',
        'if (joins && identities.length < 0)',
      ),
    ],
    tests: ['worker/lease-thread.slow'],
  },
  {
    name: 'a claim of a lease before',
    promise: 'P6',
    breaks:
      'An outcome that was refused after a lease counts as stored, once the process has registered anew.',
    edits: [source('worker/membership/lease', 'processId >= this.#first && this.valid', 'this.valid')],
    tests: ['worker/lease-thread.slow'],
  },
  {
    name: 'a completion taken for stored after the lease',
    promise: 'P6',
    breaks:
      'A process that stood still tells of a completion that was refused, since it hears of the end of its lease later.',
    edits: [
      source(
        'worker/settling/completer',
        'piece.uncertain && this.#observer.holds(',
        'piece.uncertain && Boolean(',
      ),
    ],
    tests: ['worker/completer'],
  },
  {
    name: 'the same process on another server',
    promise: 'R10',
    breaks: 'A failover has lost a completion, and as long as the worker lives nobody works on that id.',
    edits: [
      source(
        'worker/membership/lease',
        "message.kind === 'reconnected') this.#options.onReconnected()",
        "message.kind === 'reconnected') return",
      ),
    ],
    tests: ['worker/lease'],
  },
]
