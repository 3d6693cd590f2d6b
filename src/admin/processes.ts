import { LockstepError } from '../errors.ts'
import { show, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { askOfProcess, lookAtProcesses, type ProcessRequest } from '../store/process.ts'
import { notify, REBALANCE } from '../store/wake.ts'

const MAX_ID = 2 ** 31 - 1
const MAX_NAMED = 10

/**
 * Asks a worker process to be quiet or to stop. It finds out by its next comparison, which the message brings about. Resolves
 * to whether it seems to live: one that is overdue may be dead, and is asked in any case.
 * @throws LockstepError `LOCKSTEP_UNKNOWN_PROCESS`, OptionError
 */
export async function ask(database: Database, processId: number, request: ProcessRequest): Promise<boolean> {
  const number = wholeNumber(processId, 1, MAX_ID, `${request}: processId`)
  const asked = await askOfProcess(database, number, request)
  if (asked) {
    await notify(database, REBALANCE)
    return !asked.overdue
  }
  const known = (await lookAtProcesses(database)).map((sight) => sight.processId)
  throw new LockstepError(
    'LOCKSTEP_UNKNOWN_PROCESS',
    `process ${show(number)} does not exist: ${hint(known)}`,
  )
}

function hint(known: readonly number[]): string {
  if (known.length === 0) return 'no worker process is registered'
  const more = known.length > MAX_NAMED ? ' …' : ''
  return `there are ${known.slice(0, MAX_NAMED).join(', ')}${more}`
}
