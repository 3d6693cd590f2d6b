import { once } from 'node:events'
import { open } from './contenders/open.ts'
import type { PeerOrder } from './worker-process.ts'

/** A peer's process that only works. */
async function main(): Promise<void> {
  process.once('disconnect', () => process.exit())
  const [{ name, setting }] = (await once(process, 'message')) as [PeerOrder]
  const contender = await open(name, setting)
  await contender.work({ starts() {}, ends() {} })
  process.send!('ready')
  await once(process, 'message')
  await contender.close()
  process.exit()
}

await main()
