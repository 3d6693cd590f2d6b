import { relative } from 'node:path'

/** The part of vitest's JSON report that is read. */
export interface Report {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    /** The message of an error outside all tests: in an import, or a hook of the whole file. */
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

/** The result of a test run. */
export interface Finding {
  readonly passed: number
  /** `file › test` of the first test that failed. */
  readonly failed?: string
  /** The first line of the reason. */
  readonly reason?: string
  /** The code itself failed, not a test: it can't be loaded, or a statement can't be run. */
  readonly broken?: boolean
}

/**
 * Errors that mean that the mutant was written wrongly. An assertion may mention them, but code that fails with one is
 * wrong itself.
 */
const MISWRITTEN =
  /^(?!AssertionError)(.*(syntax error at|(column|function|relation|operator|type|record) .*does not exist|is ambiguous|missing FROM-clause|is of type .* but expression)|ReferenceError|SyntaxError)/

export function read({ numPassedTests: passed, testResults }: Report, directory: string): Finding {
  for (const { name, message, assertionResults } of testResults) {
    const file = relative(directory, name)
    const test = assertionResults.find(({ status }) => status === 'failed')
    if (test) {
      const reason = firstLine(test.failureMessages[0] ?? '')
      return { passed, failed: `${file} › ${test.fullName}`, reason, broken: MISWRITTEN.test(reason) }
    }
    if (message) return { passed, failed: file, reason: firstLine(message), broken: true }
  }
  return { passed }
}

/** If a test timed out, the report has only the name of its stack. */
function firstLine(message: string): string {
  const [line] = message.split('\n')
  return line === 'Error: STACK_TRACE_ERROR' ? 'the test timed out' : line!
}
