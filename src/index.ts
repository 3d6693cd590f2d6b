export type { EnqueueTransaction } from './adapters/enqueue-transaction.ts'
export type { ActorOptions, AuditOptions } from './admin/audit.ts'
export type { DeleteQueueOptions } from './admin/delete-queue.ts'
export type { FindOptions, LookOptions } from './admin/looks.ts'
export type { Progress, Progression } from './admin/progression.ts'
export type { Stats } from './admin/stats.ts'
export type { TenantsOptions } from './admin/tenants.ts'
export type { CreatedToken, NewToken } from './admin/tokens.ts'
export type { ProgressionOptions } from './admin/walk.ts'
export { type EnqueueCall, isFor, type PerformCall } from './call.ts'
export type { Consumer } from './consumer/consumer.ts'
export type {
  ClaimedJob,
  ClaimedJobs,
  ClaimOptions,
  ClaimReference,
  CompleteOptions,
  ConsumerOptions,
  FailOptions,
} from './consumer/options.ts'
export { Discard, type DiscardOptions, RetryIn, Snooze } from './ending.ts'
export type { EnqueueOptions, PushedForResult } from './enqueue/enqueue.ts'
export { type ClientMiddleware, clientMiddlewareFor } from './enqueue/middleware.ts'
export type { JobResult, ResultOptions } from './enqueue/results.ts'
export {
  CrashLimitError,
  DatabaseError,
  EmptyJobError,
  JobError,
  LockstepError,
  OptionError,
  PayloadError,
  TimeoutError,
} from './errors.ts'
export type { Fairness, FairnessRule } from './fairness.ts'
export type { Batch, Death, PerformContext, TransactionalContext, Transactions } from './handler.ts'
export type { Health, Verdicts, Vitals, WorkerState } from './health.ts'
export type {
  Instrumentation,
  Moments,
  ObservedBatch,
  ObservedLockstep,
  ObservedRound,
  ObservedWorker,
  PerformedBatch,
  PerformedRound,
  QueueState,
  SpanEnd,
  SpanObserver,
  Spans,
} from './instrumentation.ts'
export type { JobInfo, JobInWork, NewJob, PayloadHeaders } from './job.ts'
export type { Json } from './json.ts'
export type { Limit, Limits, Rate } from './limits.ts'
export { Lockstep, type LockstepOptions } from './lockstep.ts'
export type { Logger } from './logger.ts'
export type { ClientPurpose, CreateClient, CreatedClient } from './postgres/create-client.ts'
export type { MigrateOptions, MigrationReport } from './postgres/migrate.ts'
export type { Release } from './postgres/release.ts'
export type { RaisedSequence } from './postgres/sequences.ts'
export { healthListener, healthResponse, type Probed } from './probes.ts'
export { defineQueue, type Queue } from './queue.ts'
export type { QueueOptions, TransactionalQueueOptions } from './queue-options.ts'
export { defaultRetryIn } from './retry.ts'
export type { StandardSchema } from './schema.ts'
export type { FailedAttempt } from './store/attempts.ts'
export type { AuditEntry, AuditedAction } from './store/audit.ts'
export type { FoundJob, JobFilter, JobSort } from './store/jobs.ts'
export type { DeadFilter, DeadPayload, DeadSort } from './store/morgue.ts'
export type { Found, Page, Range } from './store/page.ts'
export type { ProcessRequest } from './store/process.ts'
export type { ProcessRow } from './store/process-list.ts'
export type { OwnedShards, ReportedPolicy, SlotInWork } from './store/process-report.ts'
export type { QueueStats } from './store/stats.ts'
export type { TenantList, TenantStats } from './store/tenant-list.ts'
export type { ApiToken, TokenRate, TokenScope } from './token.ts'
export {
  allShards,
  byNode,
  dynamic,
  type QueueShards,
  type ShardRef,
  type Share,
  type Splitter,
} from './worker/assignment/splitter.ts'
export type { Configure, WorkConfiguration } from './worker/configuration.ts'
export type { BatchEvent, WorkerEvents } from './worker/events.ts'
export type { ServerMiddleware } from './worker/middleware.ts'
export type { WorkerOptions } from './worker/options.ts'
export type { SlotReport } from './worker/performing/in-flight.ts'
export { type FairOptions, fair } from './worker/schedule/fair.ts'
export {
  type Candidate,
  lag,
  type Scheduler,
  seq,
  strict,
  type TakenJob,
} from './worker/schedule/scheduler.ts'
export { type Weights, weighted } from './worker/schedule/weighted.ts'
export { attachSignals } from './worker/signals.ts'
export type { Worker } from './worker/worker.ts'
