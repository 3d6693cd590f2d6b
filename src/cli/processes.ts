import type { Command } from 'commander'
import type { Lockstep, ProcessRequest } from '../index.ts'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { wholeNumberOption } from './numbers.ts'
import { write, writeJson } from './output.ts'
import { processTable, workTable } from './process-table.ts'

const HELP = `
list, which is also what the command does without another word, shows what the processes
last said of themselves, four times a lease:

  shards   how many it owns; --json has their numbers
  delay    the longest delay of its event loop in the seconds before
  memory   what it had in memory
  said     how long ago that was; if much longer than for the others, its event loop
           is blocked, or it is dead
  silent   it should have renewed its lease by now

quiet and stop tell a process to take nothing new, or to stop, wherever it runs. There is
no way back. A stopped "lockstep work" ends, as by SIGTERM, and its parent starts no
other in its place; Kubernetes or systemd may. They take the rights of the schema's owner.

Examples:
  $ lockstep processes
  $ lockstep processes list --json | jq '.[].doing'
  $ lockstep processes quiet 12
  $ lockstep processes stop 12

Exit codes: 0 success, 1 failure, such as a process that does not exist, 2 wrong usage.`

interface Deed {
  readonly request: ProcessRequest
  readonly summary: string
  readonly told: string
  ask(lockstep: Lockstep, processId: number, by: string): Promise<boolean>
}

const DEEDS: readonly Deed[] = [
  {
    request: 'quiet',
    summary: 'tell a process to take nothing new',
    told: 'be quiet',
    ask: (lockstep, processId, by) => lockstep.quiet(processId, { by }),
  },
  {
    request: 'stop',
    summary: 'tell a process to stop',
    told: 'stop',
    ask: (lockstep, processId, by) => lockstep.stop(processId, { by }),
  },
]

export function addProcesses(program: Command): void {
  const processes = program
    .command('processes')
    .summary('see worker processes, and steer them')
    .description('see what worker processes do; make one quiet, or stop it')
    .addHelpText('after', HELP)
  const listing = processes.command('list', { isDefault: true }).description('show the processes')
  withConnection(listing).action(list)
  for (const deed of DEEDS) {
    const command = processes
      .command(deed.request)
      .description(deed.summary)
      .argument('<process>', 'its number, as list shows it', wholeNumberOption(1, 2 ** 31 - 1))
    withConnection(withActor(command)).action((processId: number, flags) => steer(deed, processId, flags))
  }
}

async function list(flags: ConnectionOptions): Promise<void> {
  const processes = await connected(flags, ({ lockstep }) => lockstep.processes())
  if (flags.json) return writeJson(processes)
  if (processes.length === 0) return write('no worker process is registered')
  write(processTable(processes))
  if (processes.some(({ doing }) => doing.length > 0)) write(workTable(processes))
}

async function steer(
  { ask, request, told }: Deed,
  processId: number,
  flags: ConnectionOptions & ActorFlags,
): Promise<void> {
  const lives = await connected(flags, ({ lockstep }) => ask(lockstep, processId, actorOf(flags)))
  if (flags.json) return writeJson({ processId, request, overdue: !lives })
  const doubt = lives ? '' : '; but it is silent: it may be dead, and follows only if it goes on'
  write(`process ${processId} is told to ${told}${doubt}`)
}
