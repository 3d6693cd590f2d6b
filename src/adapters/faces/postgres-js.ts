export { transactionsOf } from '../postgres-js.ts'
