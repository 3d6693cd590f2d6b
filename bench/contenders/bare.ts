import type { Contender, Setting } from '../contender.ts'
import { openLockstep } from './lockstep.ts'

/** One row of each table, in one statement. */
const INSERT = `
  WITH job AS (
    INSERT INTO lockstep.jobs (queue_id, shard, perform_in, id, fence) VALUES (1, $1, clock_timestamp(), $2, 0)
  )
  INSERT INTO lockstep.payloads (queue_id, fence, score, job_id, digest, payload)
  VALUES (1, 0, $3, $2, sha256($2::bytea), $4)`

/** Inserts a job's rows without looking at existing rows and without notifying workers. */
export function openBare(setting: Setting): Contender {
  const lockstep = openLockstep(setting)
  return {
    ...lockstep,
    told: 'an insert into both tables',
    enqueueIn: (client, { key, seq }) =>
      client.query(INSERT, [seq % 5, `${key}:${seq}`, seq, JSON.stringify({ key, seq })]),
  }
}
