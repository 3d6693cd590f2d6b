import type { Command } from 'commander'
import type { DeadFilter, DeadPayload, DeadSort } from '../index.ts'
import { type Act, addActs } from './acts.ts'
import { type AttemptsFlags, withAttempts } from './attempts.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import {
  type DeadFilterFlags,
  deadFilterOf,
  type PageFlags,
  pageOf,
  withDeadFilter,
  withPage,
} from './filters.ts'
import { writeFound } from './found.ts'
import { excerpt, excerptOfPayload, table } from './output.ts'

const HELP = `
The morgue holds payloads that failed too often or were killed. requeue moves them back
to their jobs, which become due now with their retry count reset.

Examples:
  $ lockstep morgue list orders --by died-at --desc
  $ lockstep morgue requeue orders --id order-1
  $ lockstep morgue requeue orders --died-from 2026-03-01T12:00:00Z
  $ lockstep morgue delete orders --all

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted
(129 by SIGHUP, 143 by SIGTERM).`

const SORTS: Readonly<Record<string, DeadSort>> = { id: 'id', 'died-at': 'diedAt', score: 'score' }

const ACTS: readonly Act<DeadFilter>[] = [
  {
    name: 'requeue',
    summary: 'move dead payloads back to their jobs',
    done: 'wait again',
    begin: (lockstep, ...rest) => lockstep.requeue(...rest),
  },
  {
    name: 'delete',
    summary: 'delete dead payloads, for good',
    done: 'deleted',
    begin: (lockstep, ...rest) => lockstep.deleteDead(...rest),
  },
]

export function addMorgue(program: Command): void {
  const morgue = program
    .command('morgue')
    .description('list, requeue or delete payloads that failed too often')
    .addHelpText('after', HELP)
  const list = morgue.command('list').description('show dead payloads').argument('<queue>')
  withConnection(withAttempts(withPage(withDeadFilter(list), Object.keys(SORTS), 'died-at'))).action(listDead)
  const matched = {
    noun: 'payload',
    all: 'every dead payload of the queue',
    withFilter: withDeadFilter,
    filterOf: deadFilterOf,
  }
  addActs(morgue, matched, ACTS)
}

async function listDead(
  queue: string,
  flags: ConnectionOptions & DeadFilterFlags & PageFlags & AttemptsFlags,
): Promise<void> {
  const { json, attempts } = flags
  const found = await connected(flags, ({ lockstep }) =>
    lockstep.findDead(queue, { ...deadFilterOf(flags), ...pageOf(flags, SORTS) }, { attempts }),
  )
  writeFound(found, 'payload', json, tableOf)
}

function tableOf(dead: readonly DeadPayload[]): string {
  const some = dead.some(({ tenant }) => tenant !== null)
  const columns = [
    { head: 'id' },
    { head: 'died at' },
    { head: 'score', right: true },
    { head: 'payload' },
    ...(some ? [{ head: 'tenant' }] : []),
    { head: 'error' },
    { head: 'digest' },
  ]
  return table(
    columns,
    dead.map(({ id, diedAt, score, payload, tenant, error, digest }) => [
      excerpt(id, 40),
      diedAt.toISOString(),
      String(score),
      excerptOfPayload(payload, 40),
      ...(some ? [excerpt(tenant ?? '', 40)] : []),
      excerpt(error?.split('\n')[0] ?? '', 60),
      `${digest.slice(0, 12)}…`,
    ]),
  )
}
