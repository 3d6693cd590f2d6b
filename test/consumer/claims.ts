import type { Consumer } from '../../src/consumer/consumer.ts'
import type { ClaimOptions, ConsumerOptions } from '../../src/consumer/options.ts'
import { useWorkers, type WorkerEnvironment } from '../support/worker-environment.ts'

export interface ConsumerEnvironment {
  readonly env: WorkerEnvironment
  /** A consumer that is stopped after its test. */
  consumer(options?: ConsumerOptions): Consumer
}

/** A database for the consumers of one file. */
export function useConsumers(): ConsumerEnvironment {
  const env = useWorkers()
  return {
    env,
    consumer(options) {
      const consumer = env.lockstep.createConsumer(options)
      env.later(() => consumer.stop())
      return consumer
    },
  }
}

/** `id: payload payload` of each job that a claim brings. */
export async function claimed(consumer: Consumer, options: ClaimOptions): Promise<string[]> {
  return (await consumer.claim(options)).map(({ id, payloads }) => `${id}: ${payloads.join(' ')}`)
}
