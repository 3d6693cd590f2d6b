import type { Command } from 'commander'
import type { ActorOptions, Lockstep } from '../index.ts'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { write, writeJson } from './output.ts'
import { quote } from './suggest.ts'

const HELP = `
A paused queue still takes pushes, and running jobs go on, but workers start no other
job of the queue. Workers learn of both commands at once.

Exit codes: 0 success, 1 failure, such as a queue that does not exist, 2 wrong usage.`

export function addPause(program: Command): void {
  add(program, 'pause', 'stop workers from starting jobs of a queue', true, (lockstep, ...rest) =>
    lockstep.pause(...rest),
  )
}

export function addResume(program: Command): void {
  add(program, 'resume', 'let workers start jobs of a paused queue again', false, (lockstep, ...rest) =>
    lockstep.resume(...rest),
  )
}

function add(
  program: Command,
  name: string,
  summary: string,
  paused: boolean,
  run: (lockstep: Lockstep, queue: string, options: ActorOptions) => Promise<void>,
): void {
  const command = program.command(name).description(summary).argument('<queue>')
  withConnection(withActor(command))
    .addHelpText('after', HELP)
    .action(async (queue: string, flags: ConnectionOptions & ActorFlags) => {
      await connected(flags, ({ lockstep }) => run(lockstep, queue, { by: actorOf(flags) }))
      if (flags.json) writeJson({ queue, paused })
      else write(`queue ${quote(queue)} is ${paused ? 'paused' : 'resumed'}`)
    })
}
