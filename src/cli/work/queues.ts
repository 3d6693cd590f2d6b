import { readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Configure, Queue } from '../../index.ts'
import { isQueue } from '../../queue.ts'
import { reportFailure, UsageError } from '../failure.ts'
import { printable } from '../output.ts'
import { quote, suggestion } from '../suggest.ts'
import type { FoundConfigure } from './configuration.ts'
import { registerTypeScript } from './typescript.ts'

/** What modules export. */
export interface Loaded {
  readonly queues: readonly Queue[]
  readonly configures: readonly FoundConfigure[]
}

/**
 * The queues that modules export by name, as default, or in a default array, in the order of the files and of
 * their definition; and their functions `configure`.
 * @throws UsageError if a file is missing, fails or exports neither, or if two queues have the same name
 */
export async function loadModules(files: readonly string[]): Promise<Loaded> {
  const queues = new Map<string, { queue: Queue; file: string }>()
  const configures: FoundConfigure[] = []
  for (const file of files) {
    const { found, configure } = await exportsOf(file)
    if (configure) configures.push({ file, configure })
    if (found.length === 0 && !configure)
      throw new UsageError(`${printable(file)} exports no queue: export the result of defineQueue()`)
    for (const queue of found) {
      const earlier = queues.get(queue.name)
      if (earlier && earlier.queue !== queue) {
        const where =
          earlier.file === file
            ? `twice in ${printable(file)}`
            : `in ${printable(earlier.file)} and ${printable(file)}`
        throw new UsageError(`queue ${quote(queue.name)} is defined ${where}: rename one of them`)
      }
      queues.set(queue.name, { queue, file })
    }
  }
  if (queues.size === 0) throw new UsageError('no module exports a queue: export the result of defineQueue()')
  return { queues: [...queues.values()].map(({ queue }) => queue), configures }
}

/**
 * The queues with these names, in the order of `queues`.
 * @throws UsageError for a name that no queue has
 */
export function selectQueues(
  queues: readonly Queue[],
  names: readonly string[] | undefined,
): readonly Queue[] {
  if (names === undefined) return queues
  requireKnown(names, queues, '--queues')
  return queues.filter(({ name }) => names.includes(name))
}

export function requireKnown(names: readonly string[], queues: readonly Queue[], what: string): void {
  const known = queues.map(({ name }) => name)
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new UsageError(`${what}: no queue ${quote(unknown)} is exported; ${suggestion(unknown, known)}`)
}

async function exportsOf(
  file: string,
): Promise<{ found: readonly Queue[]; configure: Configure | undefined }> {
  const path = resolve(file)
  const source = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `-r ${printable(file)}: ${error.code === 'ENOENT' ? 'there is no such file' : error.message}`,
    )
  })
  await registerTypeScript(basename(path))
  const endWatch = tellUnsettled(file)
  const exported = await import(pathToFileURL(path).href).catch((error: Error) => {
    const hint = process.env.DEBUG ? '' : '\nSet DEBUG=lockstep to see where'
    throw new UsageError(`${printable(file)} can't be loaded: ${error?.message ?? error}${hint}`, {
      cause: error,
    })
  })
  endWatch()
  const found = inOrder(exported, source)
    .flatMap((value) => (Array.isArray(value) ? value : [value]))
    .filter(isQueue)
  const { configure } = namedOf(exported)
  if (configure !== undefined && typeof configure !== 'function' && !isQueue(configure))
    throw new UsageError(`${printable(file)}: configure must be a function that returns what it configures`)
  return { found, configure: typeof configure === 'function' ? (configure as Configure) : undefined }
}

/** Node would exit silently if a module's top level awaits something that never ends. Returns what ends the watch. */
function tellUnsettled(file: string): () => void {
  const tell = () => {
    const reason = 'it awaits something at its top level that never ends'
    process.exit(reportFailure(new UsageError(`${printable(file)} can't be loaded: ${reason}`)))
  }
  process.once('beforeExit', tell)
  return () => void process.off('beforeExit', tell)
}

/**
 * A module lists its exports alphabetically; only its text shows the order in which they were defined. Fixed splitters
 * count the shards of all queues in this order. A default array has its own order, so it comes first.
 */
function inOrder(exported: Record<string, unknown>, source: string): unknown[] {
  const named = namedOf(exported)
  const place = (name: string) => {
    const escaped = name.replaceAll('$', '\\$')
    const found = new RegExp(`\\bexport\\s+(?:(?:const|let|var)\\s+|\\{[^}]*?\\b)${escaped}\\b`).exec(source)
    return name === 'default' ? -1 : found ? found.index + found[0].length : Number.POSITIVE_INFINITY
  }
  const names = Object.keys(named).map((name) => ({ name, at: place(name) }))
  names.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at))
  return names.map(({ name }) => named[name as keyof typeof named])
}

/** When a CommonJS module is imported, all its exports, including a default, become the default export. */
function namedOf(exported: Record<string, unknown>): Record<string, unknown> {
  return { ...exported, ...(isNamespace(exported.default) ? exported.default : {}) }
}

function isNamespace(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isQueue(value)
}
