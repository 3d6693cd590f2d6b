import { afterAll, beforeAll } from 'vitest'

/** Callers do that, and so do tests of what happens then. */
const UNAWAITED_STATEMENTS = /^Calling client\.query\(\) when the client is already executing a query/

/** A warning of Node goes to the log of every application that meets it, as does a timer with a time before now. */
const warnings: Error[] = []
const note = (warning: Error) => {
  if (!UNAWAITED_STATEMENTS.test(warning.message)) warnings.push(warning)
}
// Neither runs in a file whose tests are all left out.
beforeAll(() => void process.on('warning', note))

afterAll(() => {
  process.off('warning', note)
  if (warnings.length > 0) throw new AggregateError(warnings, `Node warned: ${warnings.join('; ')}`)
})
