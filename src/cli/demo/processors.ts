import { cpus } from 'node:os'

/** How busy the machine was, including with other programs. */
export interface ProcessorUse {
  readonly count: number
  /** The part of their time in which they worked, from 0 to 1; 0 if the system does not report it. */
  readonly busy: number
}

/** Starts to measure. The function that it returns ends the measurement. */
export function measureProcessors(): () => ProcessorUse {
  const before = readTimes()
  return () => {
    const { count, total, idle } = readTimes()
    const passed = total - before.total
    return { count, busy: passed > 0 ? 1 - (idle - before.idle) / passed : 0 }
  }
}

function readTimes() {
  const times = cpus().map((processor) => processor.times)
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  return {
    count: times.length,
    total: sum(times.map((one) => sum(Object.values(one)))),
    idle: sum(times.map(({ idle }) => idle)),
  }
}
