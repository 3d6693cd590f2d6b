export { transactionsOf } from '../drizzle.ts'
