import { readdir, readFile } from 'node:fs/promises'

/** Linux counts CPU time in ticks of 10 ms. */
const MS_PER_TICK = 10

interface Stat {
  readonly parent: number
  readonly ticks: number
  /** Of children that have ended. */
  readonly endedTicks: number
}

/**
 * ms of CPU that a process of this machine and its children have used so far, including ended children; undefined if
 * /proc can't tell.
 */
export async function cpuOf(pid: number): Promise<number | undefined> {
  for (;;) {
    const root = await statOf(pid)
    if (!root) return undefined
    const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
    const stats = await Promise.all(pids.map(statOf))
    const children = stats.filter((stat) => stat?.parent === pid)
    // A child that ended meanwhile is in neither count, or in both: read again.
    if ((await statOf(pid))?.endedTicks !== root.endedTicks) continue
    return children.reduce((sum, child) => sum + child!.ticks, root.ticks + root.endedTicks) * MS_PER_TICK
  }
}

/** The process that started `pid`; undefined if it isn't on this machine. */
export async function parentOf(pid: number): Promise<number | undefined> {
  return (await statOf(pid))?.parent
}

/** Numbers the fields as proc(5) does, from the third on: the second, a name in parentheses, may contain spaces. */
async function statOf(pid: number): Promise<Stat | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const field = (number: number) => Number(fields[number - 3])
  return { parent: field(4), ticks: field(14) + field(15), endedTicks: field(16) + field(17) }
}
