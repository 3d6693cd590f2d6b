/** ms */
const LOOK_EVERY = 500

/**
 * npm and npx run a command in a shell, which ends at SIGTERM without passing it on. So a command that was started by them
 * stops like one that gets SIGTERM itself, once its parent is gone.
 */
export function stopWithoutParent(): void {
  if (process.env.npm_command === undefined) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, LOOK_EVERY)
  timer.unref()
}
