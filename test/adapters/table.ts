import { readFileSync, writeFileSync } from 'node:fs'
import type { Reporter, TestCase, TestModule } from 'vitest/node'
import { LIBRARIES } from './libraries.ts'
import { titleOf, USES, versionsOf } from './versions.ts'

const DOCS = 'docs/transactions.md'
const TABLE = /(\| library .*\n\| --- .*\n)(?:\|.*\n)*/

/** Writes the table of the docs from a run of the tests. */
export default class Table implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const rows = LIBRARIES.map((library) => {
      const results = USES.map((use) =>
        resultOf(tests.filter(({ fullName }) => fullName.startsWith(titleOf(library, use)))),
      )
      return `| ${[library.name, versionsOf(library), ...results].join(' | ')} |\n`
    })
    const docs = readFileSync(DOCS, 'utf8')
    writeFileSync(
      DOCS,
      docs.replace(TABLE, (_, head: string) => head + rows.join('')),
    )
  }
}

/** What a library can't do, or a Node can't load, is skipped. */
function resultOf(tests: readonly TestCase[]): string {
  const ran = tests.filter((test) => test.result().state !== 'skipped')
  return `${ran.filter((test) => test.ok()).length} of ${ran.length}`
}
