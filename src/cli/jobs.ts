import { type Command, Option } from 'commander'
import type { FoundJob, JobFilter, JobSort } from '../index.ts'
import { type Act, addActs } from './acts.ts'
import { type AttemptsFlags, withAttempts } from './attempts.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import {
  type JobFilterFlags,
  jobFilterOf,
  type PageFlags,
  pageOf,
  withJobFilter,
  withPage,
} from './filters.ts'
import { writeFound } from './found.ts'
import { count, excerpt, excerptOfPayload, table } from './output.ts'

const HELP = `
find shows jobs that wait or are in work. The other commands change only waiting jobs.
A push into a job in work waits behind it: find then shows the id twice, and the other
commands change only the waiting part. They act in chunks: after Ctrl-C, what is done
stays done. Ranges include both ends. With --id, find shows every named job unless you
set --limit. Write times as 2011-10-11T13:45:40Z or now.

Examples:
  $ lockstep jobs find orders --retry-from 0 --by retry-count --desc
  $ lockstep jobs find orders --id order-1 --attempts
  $ lockstep jobs find orders --id order-1 --json
  $ lockstep jobs perform-now orders --retry-from 0
  $ lockstep jobs kill orders --id order-1 --id order-2
  $ lockstep jobs perform-now orders --tenant acme
  $ lockstep jobs delete orders --all

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted
(129 by SIGHUP, 143 by SIGTERM).`

const SORTS: Readonly<Record<string, JobSort>> = {
  id: 'id',
  'perform-in': 'performIn',
  'retry-count': 'retryCount',
}

interface FindFlags extends ConnectionOptions, JobFilterFlags, PageFlags, AttemptsFlags {
  readonly state?: 'waiting' | 'working'
}

const ACTS: readonly Act<JobFilter>[] = [
  {
    name: 'perform-now',
    summary: 'make waiting jobs due now',
    done: 'made due now',
    begin: (lockstep, ...rest) => lockstep.performNow(...rest),
  },
  {
    name: 'kill',
    summary: 'move the payloads of waiting jobs to the morgue',
    done: 'killed',
    begin: (lockstep, ...rest) => lockstep.kill(...rest),
  },
  {
    name: 'delete',
    summary: 'delete waiting jobs with their payloads, for good',
    done: 'deleted',
    begin: (lockstep, ...rest) => lockstep.delete(...rest),
  },
]

export function addJobs(program: Command): void {
  const jobs = program
    .command('jobs')
    .description('find jobs, and change those that wait')
    .addHelpText('after', HELP)
  const find = jobs.command('find').description('show jobs, waiting or in work').argument('<queue>')
  withConnection(withAttempts(withPage(withJobFilter(find), Object.keys(SORTS), 'perform-in')))
    .addOption(new Option('--state <state>', 'jobs in this state only').choices(['waiting', 'working']))
    .action(findJobs)
  const matched = {
    noun: 'job',
    all: 'every waiting job of the queue',
    withFilter: withJobFilter,
    filterOf: jobFilterOf,
  }
  addActs(jobs, matched, ACTS)
}

async function findJobs(queue: string, flags: FindFlags): Promise<void> {
  const { json, attempts, state } = flags
  const found = await connected(flags, ({ lockstep }) =>
    lockstep.find(queue, { ...jobFilterOf(flags), state, ...pageOf(flags, SORTS) }, { attempts }),
  )
  writeFound(found, 'job', json, tableOf)
}

function tableOf(jobs: readonly FoundJob[]): string {
  const some = jobs.some(({ tenant }) => tenant !== null)
  const expire = jobs.some((job) => firstExpiry(job) !== '')
  const columns = [
    { head: 'id' },
    { head: 'state' },
    { head: 'shard', right: true },
    { head: 'lane', right: true },
    { head: 'due' },
    { head: 'retries', right: true },
    { head: 'crashes', right: true },
    { head: 'payloads', right: true },
    { head: 'first payload' },
    ...(some ? [{ head: 'tenant' }] : []),
    ...(expire ? [{ head: 'expires' }] : []),
    { head: 'error' },
  ]
  return table(
    columns,
    jobs.map((job) => [
      excerpt(job.id, 40),
      job.state,
      String(job.shard),
      String(job.lane),
      job.performIn.toISOString(),
      count(job.retryCount),
      count(job.crashes),
      count(job.payloads.length),
      excerptOfPayload(job.payloads[0]?.payload ?? '', 40),
      ...(some ? [excerpt(job.tenant ?? '', 40)] : []),
      ...(expire ? [firstExpiry(job)] : []),
      excerpt(job.error?.split('\n')[0] ?? '', 60),
    ]),
  )
}

/** When the first of its payloads expires; empty if none does. */
function firstExpiry({ payloads }: FoundJob): string {
  const times = payloads.flatMap(({ expiresIn }) => expiresIn ?? [])
  return times.length > 0 ? new Date(Math.min(...times)).toISOString() : ''
}
