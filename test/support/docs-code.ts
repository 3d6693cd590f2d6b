import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect } from 'vitest'

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

/** What a program prints, which must succeed. */
export async function printed(
  program: string,
  args: readonly string[],
  { input = '', env = process.env }: { readonly input?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  let [out, problems] = ['', '']
  child.stdout.on('data', (data) => {
    out += data
  })
  child.stderr.on('data', (data) => {
    problems += data
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [code] = await once(child, 'close')
  expect({ code, out, problems }).toEqual({ code: 0, out, problems })
  return out
}

/** Whether a program is there, with what it's told to load. */
export async function isInstalled(program: string, args = ['--version']): Promise<boolean> {
  const [code] = await once(spawn(program, args, { stdio: 'ignore' }), 'close').catch(() => [undefined])
  return code === 0
}

/** Answers that are JSON, which the commands of a block of bash print with curl, in order. All have to succeed. */
// biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
export async function answersOf(script: string, env?: NodeJS.ProcessEnv): Promise<any[]> {
  const failing =
    'curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }; set -eo pipefail\n'
  const out = await printed('bash', [], { input: failing + script, ...(env && { env }) })
  const lines = out.trim().split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
}

/** Names and kinds of values, of lists those of the first element. */
export function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf)
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, part]) => [name, shapeOf(part)])
      .sort(),
  )
}
