import type { Command } from 'commander'
import type {
  DeadFilter,
  DeadPayload,
  DeadSort,
  Lockstep,
  Progression,
  ProgressionOptions,
} from '../index.ts'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type AttemptsFlags, withAttempts, writeAttempts } from './attempts.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import {
  type DeadFilterFlags,
  deadFilterOf,
  type PageFlags,
  requireChoice,
  withDeadFilter,
  withPage,
} from './filters.ts'
import { follow } from './follow.ts'
import { excerpt, excerptOfPayload, note, table, write, writeJson } from './output.ts'
import { quote } from './suggest.ts'

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

interface Action {
  readonly name: string
  readonly summary: string
  /** Follows the number of payloads in the report. */
  readonly done: string
  begin(lockstep: Lockstep, queue: string, filter: DeadFilter, options: ProgressionOptions): Progression
}

const ACTIONS: readonly Action[] = [
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
  for (const action of ACTIONS) {
    const command = morgue.command(action.name).description(action.summary).argument('<queue>')
    withDeadFilter(command).option('--all', 'every dead payload of the queue')
    withConnection(withActor(command)).action((queue, flags) => act(action, queue, flags))
  }
}

async function act(
  action: Action,
  queue: string,
  flags: ConnectionOptions & DeadFilterFlags & ActorFlags,
): Promise<void> {
  const filter = deadFilterOf(flags)
  requireChoice(filter, flags.all)
  const deed = {
    label: action.name,
    noun: 'payload',
    done: `of ${quote(queue)} ${action.done}`,
    json: flags.json,
  }
  await connected(flags, ({ lockstep }) =>
    follow(deed, (signal) => action.begin(lockstep, queue, filter, { signal, by: actorOf(flags) })),
  )
}

async function listDead(
  queue: string,
  flags: ConnectionOptions & DeadFilterFlags & PageFlags & AttemptsFlags,
): Promise<void> {
  const { by, desc, limit, after, json, attempts } = flags
  const page = {
    by: by === undefined ? undefined : SORTS[by],
    direction: desc ? 'desc' : 'asc',
    limit,
    after,
  } as const
  const found = await connected(flags, ({ lockstep }) =>
    lockstep.findDead(queue, { ...deadFilterOf(flags), ...page }, { attempts }),
  )
  if (json) return writeJson(found)
  write(found.items.length === 0 ? 'no payload matches' : tableOf(found.items))
  writeAttempts(found.items)
  if (found.next) note(`there are more; show them with --after ${found.next}`)
}

function tableOf(dead: readonly DeadPayload[]): string {
  const columns = [
    { head: 'id' },
    { head: 'died at' },
    { head: 'score', right: true },
    { head: 'payload' },
    { head: 'error' },
    { head: 'digest' },
  ]
  return table(
    columns,
    dead.map(({ id, diedAt, score, payload, error, digest }) => [
      excerpt(id, 40),
      diedAt.toISOString(),
      String(score),
      excerptOfPayload(payload, 40),
      excerpt(error?.split('\n')[0] ?? '', 60),
      `${digest.slice(0, 12)}…`,
    ]),
  )
}
