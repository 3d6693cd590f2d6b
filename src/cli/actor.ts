import { userInfo } from 'node:os'
import type { Command } from 'commander'

/** Of every command that the audit records. */
export interface ActorFlags {
  readonly by?: string
}

const MAX_NAME = 200

export function withActor(command: Command): Command {
  return command.option('--by <name>', 'who does this, for the audit (default: the user of this system)')
}

/** Who acts. */
export function actorOf({ by }: ActorFlags): string {
  return by ?? systemUser().slice(0, MAX_NAME)
}

/** A container may run under a number that has no name. */
function systemUser(): string {
  try {
    return userInfo().username
  } catch {
    return `user ${process.getuid?.()}`
  }
}
