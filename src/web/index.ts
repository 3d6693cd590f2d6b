export type { BasicUser, WebAction } from './access/users.ts'
export type { NodeHandler } from './node.ts'
export type { Decision, WebOptions } from './options.ts'
export { type LockstepWeb, lockstepWeb } from './web.ts'
