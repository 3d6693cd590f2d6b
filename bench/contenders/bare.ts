import type { Contender, Setting } from '../contender.ts'
import { openLockstep } from './lockstep.ts'

/** Takes shard, id, score and payload. */
export const INSERT = `
  INSERT INTO lockstep.jobs (queue_id, shard, perform_in, id, fence, has_payloads, score, payload)
  VALUES (1, $1, clock_timestamp(), $2, 0, false, $3, $4)`

/** Inserts a job's row without looking at existing rows and without notifying workers. */
export function openBare(setting: Setting): Contender {
  const lockstep = openLockstep(setting)
  return {
    ...lockstep,
    told: 'an insert of the row',
    enqueueIn: (client, { key, seq }) =>
      client.query(INSERT, [seq % 5, `${key}:${seq}`, seq, JSON.stringify({ key, seq })]),
  }
}
