import type { ProcessRow } from '../index.ts'
import { count, duration, excerpt, table } from './output.ts'

const MB = 1024 * 1024

/** A row per process. What it last said of itself is followed by how long ago that was. */
export function processTable(processes: readonly ProcessRow[]): string {
  const columns = [
    { head: 'process' },
    { head: 'host' },
    ...['pid', 'slots', 'working', 'shards', 'delay', 'memory', 'said', 'up'].map((head) => ({
      head,
      right: true,
    })),
    { head: 'queues' },
  ]
  return table(
    columns,
    processes.map((process) => [
      `${process.processId}${stateOf(process)}`,
      excerpt(process.host, 30),
      String(process.pid),
      count(process.slots),
      count(process.working),
      ...saidBy(process),
      duration(since(process.startedAt)),
      excerpt(process.queues.join(', '), 60),
    ]),
  )
}

/** What it is doing, a line per slot. */
export function workTable(processes: readonly ProcessRow[]): string {
  const columns = [
    ...['process', 'slot', 'for'].map((head) => ({ head, right: true })),
    { head: 'queue' },
    ...['shard', 'jobs'].map((head) => ({ head, right: true })),
    { head: 'ids' },
  ]
  const rows = processes.flatMap(({ processId, doing }) =>
    doing.map((one) => [
      String(processId),
      String(one.slot),
      duration(since(one.since)),
      excerpt(one.queue, 40),
      String(one.shard),
      count(one.jobs),
      excerpt(one.ids.join(', '), 60) + (one.ids.length < one.jobs ? ' …' : ''),
    ]),
  )
  return table(columns, rows)
}

function stateOf({ quiet, overdue, request }: ProcessRow): string {
  const asked = request === 'stop' ? ' (told to stop)' : request && !quiet ? ' (told to be quiet)' : ''
  return `${quiet ? ' (quiet)' : ''}${asked}${overdue ? ' (silent)' : ''}`
}

function saidBy({ shards, eventLoopDelay, memory, reportedAt }: ProcessRow): string[] {
  if (reportedAt === null) return ['–', '–', '–', '–']
  return [
    count(shards.reduce((sum, owned) => sum + owned.count, 0)),
    duration(eventLoopDelay!),
    `${count(Math.round(memory! / MB))} MB`,
    `${duration(since(reportedAt))} ago`,
  ]
}

/** ms. The clock of this host may be behind. */
function since(time: Date): number {
  return Math.max(0, Date.now() - time.getTime())
}
