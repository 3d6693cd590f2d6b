#!/usr/bin/env node
import { EXIT } from './exit.ts'

// What the command line needs beyond the queue is installed as optional packages, and may have been left out.
const { main } = await import('./program.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  const [, name] = /package '([^']+)'/.exec(error.message) ?? []
  process.stderr.write(`lockstep: the command line needs ${name ?? 'a package'}, which is not installed\n`)
  process.exit(EXIT.failed)
})
await main()
