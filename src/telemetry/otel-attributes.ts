import type { Attributes } from '@opentelemetry/api'

/** `messaging.system`, and the name of the instrumentation. */
export const SYSTEM = 'pg_lockstep'

/** The names by the conventions for messaging. They are not stable yet, so that no package of ours exports them. */
export const ATTRIBUTE = {
  system: 'messaging.system',
  destination: 'messaging.destination.name',
  operation: 'messaging.operation.name',
  operationType: 'messaging.operation.type',
  messageCount: 'messaging.batch.message_count',
  partition: 'messaging.destination.partition.id',
  client: 'messaging.client.id',
  errorType: 'error.type',
} as const

/** Names of our own. */
export const OWN_ATTRIBUTE = {
  jobId: 'messaging.pg_lockstep.job.id',
  retryCount: 'messaging.pg_lockstep.job.retry_count',
  outcome: 'messaging.pg_lockstep.outcome',
} as const

export function errorAttributes(error: unknown): Attributes {
  return { [ATTRIBUTE.errorType]: typeOf(error) }
}

/** Something of which there are few: a code of ours, or the name of a class. */
export function typeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { readonly code?: unknown; readonly name?: unknown }
  if (typeof code === 'string' && code.startsWith('LOCKSTEP_')) return code
  return error instanceof Error && typeof name === 'string' && name !== '' ? name : '_OTHER'
}
