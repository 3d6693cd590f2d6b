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

/** The anchors that GitHub makes from headings. */
function anchorsOf(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map((match) =>
    match[1]!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
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

test('the code about connections is compiled: it is a part of an example', () => {
  const section = readFileSync('docs/operating.md', 'utf8').split('## Connections')[1]!.split('\n## ')[0]!
  const blocks = [...section.matchAll(/```ts\n(.*?)```/gs)].map((match) => lines(match[1]!))
  expect(blocks.length).toBeGreaterThan(3)
  const example = lines(readFileSync('docs/examples/connections.ts', 'utf8'))
  for (const block of blocks) expect(example).toContain(block)
})
