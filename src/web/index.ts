export type { NodeHandler } from '../serving/node.ts'
export type { BasicUser, WebAction } from './access/users.ts'
export type { Decision, WebOptions } from './options.ts'
export { type LockstepWeb, lockstepWeb } from './web.ts'
