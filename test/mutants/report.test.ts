import { expect, test } from 'vitest'
import { read } from './report.ts'

const FILE = '/copy/test/a.test.ts'

function report(message: string, ...tests: [status: string, failure?: string][]) {
  const assertionResults = tests.map(([status, failure], index) => ({
    status,
    fullName: `test ${index}`,
    failureMessages: failure ? [`${failure}\n    at somewhere`] : [],
  }))
  const passed = tests.filter(([status]) => status === 'passed').length
  return {
    numPassedTests: passed,
    testResults: [{ name: FILE, status: 'failed', message, assertionResults }],
  }
}

test('the first test that failed is what noticed, with the first line of its reason', () => {
  const failures = report(
    '',
    ['passed'],
    ['failed', 'AssertionError: expected 1 to be 2'],
    ['failed', 'Error: x'],
  )
  expect(read(failures, '/copy')).toEqual({
    passed: 1,
    failed: 'test/a.test.ts › test 1',
    reason: 'AssertionError: expected 1 to be 2',
    broken: false,
  })
})

test('a test that took too long has failed', () => {
  expect(read(report('', ['failed', 'Error: STACK_TRACE_ERROR']), '/copy')).toMatchObject({
    reason: 'the test timed out',
    broken: false,
  })
})

test('nothing failed', () => {
  expect(read(report('', ['passed'], ['pending']), '/copy')).toEqual({ passed: 1 })
})

test('a file that can’t be loaded, or whose hook fails, is broken: no test has noticed', () => {
  expect(read(report("Cannot find module './x.ts'"), '/copy')).toMatchObject({
    broken: true,
    failed: 'test/a.test.ts',
  })
  expect(read(report('the hook failed', ['skipped']), '/copy')).toMatchObject({ broken: true, passed: 0 })
})

test.each([
  'error: syntax error at or near "FORM"',
  'error: column p.digets does not exist',
  'DatabaseError: function lockstep.nothing(integer) does not exist',
  'error: column reference "id" is ambiguous',
  'ReferenceError: settle is not defined',
])('a mutant that is miswritten is broken: %s', (message) => {
  expect(read(report('', ['passed'], ['failed', message]), '/copy').broken).toBe(true)
})

test.each([
  'AssertionError: expected promise to reject with "column x does not exist"',
  'TypeError: Cannot read properties of undefined',
  'error: deadlock detected',
  'error: queue "a" does not exist',
])('a test that ran into what the mutant does has noticed: %s', (message) => {
  expect(read(report('', ['passed'], ['failed', message]), '/copy').broken).toBe(false)
})
