import { relative } from 'node:path'

/** What of vitest's JSON report is read. */
export interface Report {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    /** Of an error outside all tests: an import, or a hook of the whole file. */
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

/** What a run of tests says. */
export interface Finding {
  readonly passed: number
  /** `file › test` of the first that failed. */
  readonly failed?: string
  /** The first line of why. */
  readonly reason?: string
  /** Not a test failed but the code: it can't be loaded, or a statement can't be run. */
  readonly broken?: boolean
}

/** Mistakes in writing the mutant. An assertion may speak of them; whoever runs into them has made one. */
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

/** In the report a test that took too long has the name of its stack alone. */
function firstLine(message: string): string {
  const [line] = message.split('\n')
  return line === 'Error: STACK_TRACE_ERROR' ? 'the test timed out' : line!
}
