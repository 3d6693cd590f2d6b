#!/usr/bin/env node
import { EXIT } from './exit.ts'

// The command line needs optional packages, which may not be installed.
const { main } = await import('./program.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  const [, name] = /package '([^']+)'/.exec(error.message) ?? []
  process.stderr.write(
    `lockstep: the command line needs ${name ?? 'a package'}, which is not installed: install it\n`,
  )
  process.exit(EXIT.failed)
})
await main()
