/** MB: a worker's garbage is collected early. Larger ones made it no faster, and took up to twice the memory. */
export const SMALL_SEMI_SPACE = '--max-semi-space-size=8'
const OPTION = /--max[-_]semi[-_]space[-_]size/

/** Replaces the program of this process, which keeps its number and its open files. Node has it since 22.15, except on Windows. */
type Execve = (file: string, args: readonly string[], env: NodeJS.ProcessEnv) => never

/**
 * Starts this command line anew in the same process, with a small young generation. Since version 22, Node lets it grow to
 * 128 MB before it collects, and V8 takes the limit only at its start. Processes that this one starts get it too. Does
 * nothing if the user has set one, if another process has a channel to this one, which would be lost, or if Node can't: older
 * versions have a small one anyway.
 */
export function limitYoungGeneration(): void {
  const { execve } = process as { execve?: Execve }
  const { env, execPath, execArgv, argv } = process
  const isSet = [...execArgv, env.NODE_OPTIONS ?? ''].some((option) => OPTION.test(option))
  if (!execve || isSet || process.connected) return
  execve(execPath, [execPath, ...execArgv, SMALL_SEMI_SPACE, ...argv.slice(1)], env)
}
