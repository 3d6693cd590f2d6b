import type { Command } from 'commander'
import type { Lockstep, Progression, ProgressionOptions } from '../index.ts'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { requireChoice } from './filters.ts'
import { follow } from './follow.ts'
import { quote } from './suggest.ts'

/** A command that does something to all that a filter matches. */
export interface Act<Filter> {
  readonly name: string
  readonly summary: string
  /** Follows the number of items in the report. */
  readonly done: string
  begin(lockstep: Lockstep, queue: string, filter: Filter, options: ProgressionOptions): Progression
}

/** What the acts of a command are done to. */
export interface Matched<Filter, Flags> {
  /** In the singular: `job`, `payload`. */
  readonly noun: string
  /** What `--all` means. */
  readonly all: string
  withFilter(command: Command): Command
  filterOf(flags: Flags): Filter
}

type ActFlags = ConnectionOptions & ActorFlags & { readonly all?: boolean }

export function addActs<Filter extends object, Flags>(
  parent: Command,
  matched: Matched<Filter, Flags>,
  acts: readonly Act<Filter>[],
): void {
  for (const { name, summary, done, begin } of acts) {
    const command = parent.command(name).description(summary).argument('<queue>')
    matched.withFilter(command).option('--all', matched.all)
    withConnection(withActor(command)).action(async (queue: string, flags: Flags & ActFlags) => {
      const filter = matched.filterOf(flags)
      requireChoice(filter, flags.all)
      const deed = { label: name, noun: matched.noun, done: `of ${quote(queue)} ${done}`, json: flags.json }
      await connected(flags, ({ lockstep }) =>
        follow(deed, (signal) => begin(lockstep, queue, filter, { signal, by: actorOf(flags) })),
      )
    })
  }
}
