import type { Command } from 'commander'
import type { Lockstep } from '../index.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { write, writeJson } from './output.ts'
import { quote } from './suggest.ts'

const HELP = `
While a queue is paused, pushes are taken and what runs goes on, but no worker starts
anything of it. Workers hear of both at once.

Exit codes: 0 ok, 1 failed, such as for a queue that does not exist, 2 wrong usage.`

export function addPause(program: Command): void {
  add(program, 'pause', 'start nothing of a queue until it is resumed', true, (lockstep, queue) =>
    lockstep.pause(queue),
  )
}

export function addResume(program: Command): void {
  add(program, 'resume', 'let workers go on with a paused queue', false, (lockstep, queue) =>
    lockstep.resume(queue),
  )
}

function add(
  program: Command,
  name: string,
  summary: string,
  paused: boolean,
  run: (lockstep: Lockstep, queue: string) => Promise<void>,
): void {
  const command = program.command(name).description(summary).argument('<queue>')
  withConnection(command)
    .addHelpText('after', HELP)
    .action(async (queue: string, flags: ConnectionOptions) => {
      await connected(flags, ({ lockstep }) => run(lockstep, queue))
      if (flags.json) writeJson({ queue, paused })
      else write(`queue ${quote(queue)} is ${paused ? 'paused' : 'resumed'}`)
    })
}
