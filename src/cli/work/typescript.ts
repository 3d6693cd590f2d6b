import { EXTENSION } from '../../location.ts'
import { UsageError } from '../failure.ts'

let registered = false

/**
 * Makes TypeScript importable in this process through tsx, an optional package. Plain JavaScript works without it,
 * and so may TypeScript on a Node that strips types.
 * @throws UsageError if a TypeScript file can't be loaded
 */
export async function registerTypeScript(file: string): Promise<void> {
  // When run from source, this process already has a loader.
  if (registered || EXTENSION === 'ts') return
  try {
    const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
    // In a package without "type": "module", the file is CommonJS.
    cjs.register()
    esm.register()
    registered = true
  } catch (error) {
    const stripsTypes = Boolean((process.features as { typescript?: unknown }).typescript)
    if (stripsTypes || !/\.[cm]?tsx?$/.test(file)) return
    throw new UsageError(`to load ${file}, install tsx: npm install tsx`, { cause: error })
  }
}
