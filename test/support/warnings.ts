import { afterAll } from 'vitest'

/** A warning of Node goes to the log of every application that meets it, as does a timer with a time before now. */
const warnings: Error[] = []
process.on('warning', (warning) => warnings.push(warning))

afterAll(() => {
  if (warnings.length > 0) throw new AggregateError(warnings, `Node warned: ${warnings.join('; ')}`)
})
