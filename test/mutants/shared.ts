import { type Mutant, source } from './mutant.ts'

/** Mistakes in how queues, lanes and tenants share the slots. */
export const SHARED: readonly Mutant[] = [
  {
    name: 'turns by the batch',
    promise: 'R13',
    breaks: 'Who has large batches has most of the work.',
    edits: [source('worker/schedule/by-turns', 'charged * jobs.length', 'charged')],
    tests: ['worker/shares'],
  },
  {
    name: 'a lane with large batches is drawn as often as others',
    promise: 'R13',
    breaks: 'Lanes of weight 6, 3 and 1 don’t have 60, 30 and 10 % of the jobs.',
    edits: [source('worker/schedule/by-turns', 'charged + this.#priceOf(lane, jobs.length - 1)', 'charged')],
    tests: ['worker/shares', 'worker/tenants'],
  },
  {
    name: 'a pick that took nothing is paid for',
    promise: 'R13',
    breaks: 'Whose claims come to nothing falls behind.',
    edits: [source('worker/performing/slot', 'if (!hasTaken) this.#took(lane.candidate, [])', '')],
    tests: ['worker/waiting'],
  },
  {
    name: 'a lane that comes anew does not draw',
    promise: 'R13',
    breaks: 'A slow lane that comes and goes is looked at first each time.',
    edits: [source('worker/schedule/turns', 'earliest + this.#entry(key)', 'earliest')],
    tests: ['worker/shares'],
  },
  {
    name: 'tenants are paid for the time they were away',
    promise: 'R13',
    breaks: 'One that comes back after a day has all slots for hours.',
    edits: [source('worker/schedule/by-turns', 'credit: HEAD_START', 'credit: 1_000_000')],
    tests: ['worker/shares'],
  },
  {
    name: 'tenants all count the same',
    promise: 'R13',
    breaks: 'Weights are without effect.',
    edits: [source('worker/schedule/fair', '1 / weights.of(tenant)', '1')],
    tests: ['worker/shares', 'worker/tenants'],
  },
  {
    name: 'tenants’ lanes are lanes like others to a scheduler',
    promise: 'R13',
    breaks: 'The number of a tenant’s lane decides how much it has.',
    edits: [source('worker/schedule/due-lane', 'Math.max(0, of.key.lane)', 'of.key.lane')],
    tests: ['worker/tenants'],
  },
  {
    name: 'a tenant that is new is found by a full look only',
    promise: 'R13',
    breaks: 'Its first job waits for a second, or five, while slots go on with others’ backlogs.',
    edits: [
      source(
        'worker/discovery/looks',
        'if (served && this.#options.timetable.meet(served, lane)) news.add(served)',
        '',
      ),
    ],
    tests: ['worker/tenants'],
  },
  {
    name: 'more than 16 tenants are not polled in all shards',
    promise: 'R13',
    breaks: 'The next job of a tenant waits for a full look, in each shard that it is new to.',
    edits: [source('worker/schedule/served-queue', 'lane >= 0 && [', '[')],
    tests: ['worker/tenants', 'worker/timetable'],
  },
  {
    name: 'a tenant whose jobs are here goes on without end',
    promise: 'R13',
    breaks: 'Where handlers are quick, one tenant has all slots for as long as its jobs last.',
    edits: [source('worker/schedule/by-turns', 'isBegun ? LONGEST_TURN : 0', 'isBegun ? 1_000 : 0')],
    tests: ['worker/shares'],
  },
]
