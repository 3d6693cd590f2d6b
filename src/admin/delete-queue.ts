import { rejectUnknownOptions } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import { Progression } from './progression.ts'
import { chunkSettings, type ProgressionOptions } from './walk.ts'

export interface DeleteQueueOptions extends ProgressionOptions {
  /** Also delete its waiting jobs and dead payloads, for good. Default false: refuses to delete a queue that holds any. */
  readonly withJobs?: boolean
}

/**
 * Deletes a queue: with `withJobs`, first its waiting jobs and dead payloads, in chunks; then its row, and its results. Refuses while a
 * process serves it: that would create it again, and no one else may touch its jobs in work (R11).
 */
export function deleteQueue(
  database: Database,
  queue: Queue | string,
  options: DeleteQueueOptions,
): Progression {
  rejectUnknownOptions(options, ['withJobs', 'signal', 'chunk', 'by'], 'deleteQueue')
  const { withJobs = false, ...rest } = options
  const settings = chunkSettings(rest, 'deleteQueue')
  return new Progression(
    (async function* () {
      const { deletion } = await import('./deletion.ts')
      yield* deletion(database, queue, settings, withJobs)
    })(),
  )
}
