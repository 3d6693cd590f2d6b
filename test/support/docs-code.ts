import { readFileSync } from 'node:fs'

/** The blocks of code of one language below a heading of a Markdown file, up to the next heading. */
export function codeIn(file: string, heading: string, language: string): string[] {
  const section = sectionsOf(readFileSync(file, 'utf8')).find((one) => one.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`${file} has no heading "${heading}"`)
  const blocks = [...section.matchAll(/^```(\w+)\n(.*?)^```/gms)].filter((match) => match[1] === language)
  if (blocks.length === 0) throw new Error(`${file} has no ${language} below "${heading}"`)
  return blocks.map((match) => match[2]!)
}

/** Each starts with its heading. A comment of a shell or of Python starts with one # only. */
function sectionsOf(text: string): string[] {
  return text.split(/^##+ /m).slice(1)
}
