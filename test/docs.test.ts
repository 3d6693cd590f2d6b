import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const DOCS = readdirSync('docs', { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.md') && !file.includes('node_modules'),
)
const FILES = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'test/README.md',
  ...DOCS.map((file) => `docs/${file}`),
]

interface Link {
  readonly from: string
  readonly to: string
}

function linksOf(file: string): Link[] {
  return [...readFileSync(file, 'utf8').matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map((match) => ({
    from: file,
    to: match[1]!,
  }))
}

/** The anchors that GitHub makes from headings, with a number if there are several of one text; and those of tags. */
function anchorsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const seen = new Map<string, number>()
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map((match) => {
    const name = match[1]!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(name) ?? 0
    seen.set(name, times + 1)
    return times === 0 ? name : `${name}-${times}`
  })
  return [...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map((match) => match[1]!)]
}

function leadsSomewhere({ from, to }: Link): boolean {
  const [path, anchor] = to.split('#') as [string, string | undefined]
  const file = path === '' ? from : join(dirname(from), path)
  return existsSync(file) && (anchor === undefined || anchorsOf(file).includes(anchor))
}

test('links in the docs lead somewhere', () => {
  const links = FILES.flatMap(linksOf)
  expect(links.length).toBeGreaterThan(50)
  expect(links.filter((link) => !leadsSomewhere(link))).toEqual([])
})

const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => line.trim())
    .join('\n')

const codeIn = (text: string) => [...text.matchAll(/```ts\n(.*?)```/gs)].map((match) => lines(match[1]!))

test('the code about connections is compiled: it is a part of an example', () => {
  const section = readFileSync('docs/operating.md', 'utf8').split('## Connections')[1]!.split('\n## ')[0]!
  const blocks = codeIn(section)
  expect(blocks.length).toBeGreaterThan(3)
  const example = lines(readFileSync('docs/examples/connections.ts', 'utf8'))
  for (const block of blocks) expect(example).toContain(block)
})

test('so is the code about telemetry', () => {
  const blocks = codeIn(readFileSync('docs/telemetry.md', 'utf8'))
  expect(blocks.length).toBeGreaterThan(3)
  const example = lines(readFileSync('docs/examples/telemetry.ts', 'utf8'))
  for (const block of blocks) expect(example).toContain(block)
})
