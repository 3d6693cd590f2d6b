export { advance } from './advance.ts'
export { type ContextOptions, createContext, type TestContext } from './context.ts'
export { type Drained, type DrainOptions, drain, type FailedRun } from './drain.ts'
export {
  assertEnqueued,
  assertNotEnqueued,
  type Enqueued,
  enqueued,
} from './enqueued.ts'
export type { Expected } from './expected.ts'
export { startPostgres, type TestPostgres } from './postgres.ts'
