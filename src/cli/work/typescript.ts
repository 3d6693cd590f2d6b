import { UsageError } from '../failure.ts'

let registered = false

/**
 * Makes TypeScript importable in this process through tsx, which is an optional package. Plain JavaScript works
 * without it, and so may TypeScript on a Node that strips types.
 * @throws UsageError where a TypeScript file can't be loaded
 */
export async function registerTypeScript(file: string): Promise<void> {
  // From source, this process runs under a loader already.
  if (registered || import.meta.url.endsWith('.ts')) return
  try {
    const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
    // A file in a package without "type": "module" is CommonJS.
    cjs.register()
    esm.register()
    registered = true
  } catch (error) {
    const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript)
    if (stripsTypes || !/\.[cm]?tsx?$/.test(file)) return
    throw new UsageError(`to load ${file}, install tsx: npm install tsx`, { cause: error })
  }
}
