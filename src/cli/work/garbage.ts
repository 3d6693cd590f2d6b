import { setFlagsFromString } from 'node:v8'

/** MB: a worker's garbage is collected early. Larger ones made it no faster, and took up to twice the memory. */
export const SMALL_SEMI_SPACE = '--max-semi-space-size=8'
/** %: how much the old generation may grow over what is in use before it is collected. V8 allows up to 300. */
export const LITTLE_GROWTH = '--heap-growing-percent=100'
const OPTION = /--max[-_]semi[-_]space[-_]size/

/** Replaces the program of this process, which keeps its number and its open files. Node has it since 22.15, except on Windows. */
type Execve = (file: string, args: readonly string[], env: NodeJS.ProcessEnv) => never

/**
 * Has V8 collect garbage before it grows. Does nothing if the user has set the size of the young generation.
 *
 * V8 takes the growth of the old generation at any time. It takes the size of the young one only at its start, so this starts
 * the command line anew in the same process. Since version 22, Node would let it grow to 128 MB. Processes that this one starts
 * get the size too. It stays as it is if another process has a channel to this one, which would be lost, or if Node can't
 * replace its program: older versions keep it small anyway.
 */
export function collectEarly(): void {
  const { execve } = process as { execve?: Execve }
  const { env, execPath, execArgv, argv } = process
  const isStartedAnew = execArgv.includes(SMALL_SEMI_SPACE)
  const isSet = [...execArgv, env.NODE_OPTIONS ?? ''].some((option) => OPTION.test(option))
  if (isSet && !isStartedAnew) return
  if (execve && !isSet && !process.connected)
    execve(execPath, [execPath, ...execArgv, SMALL_SEMI_SPACE, ...argv.slice(1)], env)
  setFlagsFromString(LITTLE_GROWTH)
}
