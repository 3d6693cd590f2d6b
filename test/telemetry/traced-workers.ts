import { beforeAll, beforeEach } from 'vitest'
import { Lockstep, type Queue, type QueueOptions } from '../../src/index.ts'
import { type OtelOptions, otel } from '../../src/telemetry/otel.ts'
import { next, useWorkers } from '../support/worker-environment.ts'
import { forgetSpans, inSpan, register } from './spans.ts'

/** Workers that are traced, for the tests of the calling file. */
export function useTracedWorkers() {
  const env = useWorkers()
  beforeAll(register)
  beforeEach(forgetSpans)

  function traced(options: OtelOptions = {}): Lockstep {
    const { connectionString, logger } = env
    const lockstep = new Lockstep({ connectionString, logger, instrumentation: [otel(options)] })
    env.later(() => lockstep.close())
    return lockstep
  }

  /** Performs what waits in the queue, and stops. */
  async function perform(lockstep: Lockstep, queue: Queue): Promise<void> {
    const worker = env.create({ queues: [queue] }, lockstep)
    const ended = Promise.race([
      next(worker, 'completed'),
      next(worker, 'failed'),
      next(worker, 'snoozed'),
      next(worker, 'dropped'),
    ])
    await worker.start()
    await ended
    await worker.stop()
  }

  const working = (options: QueueOptions<unknown> = {}) =>
    env.queue({ perform: () => inSpan('work', () => new Promise(setImmediate)), ...options })

  return { env, traced, perform, working }
}
