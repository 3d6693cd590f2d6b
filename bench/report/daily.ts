import { below, type Goal, p50, p99, ratio, value } from './goal.ts'

/** What applications see in everyday use. */
export const dailyGoals: readonly Goal[] = [
  ...[100, 800, 2_000].flatMap((rate) => [
    below(`${rate.toLocaleString('en')} single pushes a second`, 'p50', 5, `single-${rate}`, p50),
    below(`${rate.toLocaleString('en')} single pushes a second`, 'p99', 25, `single-${rate}`, p99),
  ]),
  ...[20, 100].map((longest) =>
    below(`pushed up to ${longest} ms before COMMIT`, 'p99', 25, `early-${longest}`, p99),
  ),
  below('a second process joins and leaves', 'p99', 50, 'joining', p99),
  ...[256, 1_000].map((slots) =>
    ratio(
      `${slots.toLocaleString('en')} slots on twice as many shards`,
      'at least 0.9 × the rate of 64',
      [`slots-${slots}`, 'slots-64'],
      (share) => share >= 0.9,
    ),
  ),
  ratio(
    'pick-up by 200 slots on 2,000 shards',
    'p50 below 1.3 × that of 5 on 5',
    ['pick-up-200-2000', 'pick-up-5-5'],
    (share) => share < 1.3,
  ),
  below('100 jobs of 500 ms by 50 slots', 'ms until all are done', 1_200, 'slow-50', value),
  below('a job beside another queue’s backlog', 'p99', 100, 'backlog', p99),
  ratio(
    'jobs that fail',
    'at least 0.3 × the rate of those that do not',
    ['failing', 'work-10'],
    (share) => share >= 0.3,
  ),
  ...['fair', 'strict', 'seq', 'weighted', 'own'].map((scheduler) =>
    ratio(
      scheduler === 'own' ? 'a scheduler of one’s own' : `scheduler ${scheduler}`,
      'at least 0.8 × the rate of lag',
      [`scheduler-${scheduler}`, 'scheduler-lag'],
      (share) => share >= 0.8,
    ),
  ),
  below('an idle worker', 'transactions a second', 4, 'idle-1', value),
  below('10 idle workers', 'transactions a second', 10, 'idle-10', value),
]
