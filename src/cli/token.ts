import { type Command, InvalidArgumentError } from 'commander'
import type { ApiToken, TokenRate, TokenScope } from '../index.ts'
import { SCOPES } from '../token.ts'
import { type ActorFlags, actorOf, withActor } from './actor.ts'
import { type ConnectionOptions, connected, withConnection } from './connection.ts'
import { collect } from './numbers.ts'
import { excerpt, note, printable, table, write, writeJson } from './output.ts'
import { quote } from './suggest.ts'

const HELP = `
Tokens are for the HTTP API. create prints the token once: only its hash is stored, so
nobody can look it up later. delete makes every server refuse it within a second.

Scopes, none of which includes another:
  produce  push jobs
  consume  claim jobs, say how they ended, peek
  admin    find jobs, dead payloads and counts; requeue, delete, pause, reshard

create and delete take the rights of the schema's owner.

Examples:
  $ lockstep token create shop --scope produce --queue orders --queue mails
  $ lockstep token create worker-1 --scope consume --rate 600/60
  $ lockstep token list
  $ lockstep token delete shop

Exit codes: 0 success, 1 failure, such as a name that is taken, 2 wrong usage.`

interface CreateFlags extends ConnectionOptions, ActorFlags {
  readonly scope: readonly TokenScope[]
  readonly queue?: readonly string[]
  readonly rate?: TokenRate
}

export function addToken(program: Command): void {
  const token = program
    .command('token')
    .summary('manage the tokens of the HTTP API')
    .description('create, list and delete the tokens of the HTTP API')
    .addHelpText('after', HELP)
  const creating = token
    .command('create')
    .description('create a token, and print it once')
    .argument('<name>', 'tells it apart, and is in the audit')
    .requiredOption('--scope <scope>', `${SCOPES.join(', ')}; may be repeated`, scopeOption)
    .option('--queue <name>', 'good for this queue only; may be repeated (default: all)', collect)
    .option('--rate <requests/seconds>', 'so many requests in so many seconds, such as 100/60', rateOption)
  withConnection(withActor(creating)).action(create)
  withConnection(token.command('list').description('show the tokens, without what they are made of')).action(
    list,
  )
  const deleting = token.command('delete').description('delete a token').argument('<name>')
  withConnection(withActor(deleting)).action(remove)
}

function scopeOption(value: string, previous: readonly string[] = []): readonly string[] {
  if ((SCOPES as readonly string[]).includes(value)) return [...previous, value]
  throw new InvalidArgumentError(`It must be ${SCOPES.join(', ')}.`)
}

function rateOption(value: string): TokenRate {
  const [, requests, per] = /^(\d+)\/(\d+)$/.exec(value) ?? []
  if (requests && per) return { requests: Number(requests), per: Number(per) }
  throw new InvalidArgumentError('It must be requests/seconds, such as 100/60.')
}

async function create(name: string, flags: CreateFlags): Promise<void> {
  const { scope: scopes, queue: queues, rate, json } = flags
  const created = await connected(flags, ({ lockstep }) =>
    lockstep.createToken({ name, scopes, queues, rate, by: actorOf(flags) }),
  )
  if (json) return writeJson(created)
  note('keep the token: it is shown this once')
  write(created.token)
}

async function list(flags: ConnectionOptions): Promise<void> {
  const tokens = await connected(flags, ({ lockstep }) => lockstep.tokens())
  if (flags.json) return writeJson(tokens)
  write(tokens.length === 0 ? 'there is no token' : tableOf(tokens))
}

async function remove(name: string, flags: ConnectionOptions & ActorFlags): Promise<void> {
  await connected(flags, ({ lockstep }) => lockstep.deleteToken(name, { by: actorOf(flags) }))
  if (flags.json) return writeJson({ name, deleted: true })
  write(`token ${quote(name)} is deleted`)
}

function tableOf(tokens: readonly ApiToken[]): string {
  const columns = [
    { head: 'name' },
    { head: 'scopes' },
    { head: 'queues' },
    { head: 'rate' },
    { head: 'created at' },
  ]
  return table(
    columns,
    tokens.map(({ name, scopes, queues, rate, createdAt }) => [
      excerpt(name, 40),
      scopes.join(', '),
      queues === null ? 'all' : printable(queues.join(', ')),
      rate === null ? 'any' : `${rate.requests}/${rate.per} s`,
      createdAt.toISOString(),
    ]),
  )
}
