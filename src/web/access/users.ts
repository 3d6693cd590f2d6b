import { OptionError } from '../../errors.ts'
import { isStorable, rejectUnknownOptions, show } from '../../options.ts'

/** To see, to change jobs, to change queues. */
export type WebAction = 'view' | 'act' | 'configure'

/** Each role may do what those before it may. */
export const ACTIONS: readonly WebAction[] = ['view', 'act', 'configure']

/** Characters that the audit takes of an actor. */
export const MAX_NAME = 200

export interface BasicUser {
  /** 1 to 200 characters, without a colon. */
  readonly username: string
  readonly password: string
  /** The most that the user may do; includes what comes before it in view, act, configure. Default `configure`. */
  readonly role?: WebAction
}

/** @throws OptionError; no message shows a password */
export function checkUsers(given: BasicUser | readonly BasicUser[]): readonly Required<BasicUser>[] {
  const users = Array.isArray(given) ? given : [given]
  if (users.length === 0) throw new OptionError('lockstepWeb: basicAuth must name at least one user')
  const checked = users.map((user, index) => checkUser(user, `lockstepWeb: basicAuth[${index}]`))
  const names = checked.map(({ username }) => username)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new OptionError(`lockstepWeb: basicAuth names ${show(twice)} twice`)
  return checked
}

function checkUser(user: BasicUser, what: string): Required<BasicUser> {
  rejectUnknownOptions(user, ['username', 'password', 'role'], what)
  const { username, password, role = 'configure' } = user
  if (typeof username !== 'string' || !isName(username))
    throw new OptionError(
      `${what}.username must be text of 1 to ${MAX_NAME} characters without a colon, not ${show(username)}`,
    )
  if (typeof password !== 'string' || password === '')
    throw new OptionError(`${what}.password must be text, and not be empty: is a variable not set?`)
  if (!ACTIONS.includes(role))
    throw new OptionError(`${what}.role must be ${ACTIONS.join(', ')}, not ${show(role)}`)
  return { username, password, role }
}

/** Also the audit has to take it, or its user could look, and never act. */
function isName(text: string): boolean {
  return text.trim() !== '' && text.length <= MAX_NAME && isStorable(text) && !text.includes(':')
}
