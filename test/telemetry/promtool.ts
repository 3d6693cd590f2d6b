import { spawnSync } from 'node:child_process'

/** Whether Prometheus' own checker is installed; Debian has it in its package `prometheus`. */
export const hasPromtool = spawnSync('promtool', ['--version']).status === 0
if (!hasPromtool) console.log('promtool is not installed: what it checks is skipped')

/** Runs it; returns what it complains of, or nothing. */
export function promtool(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}`
}
