export { transactionsOf } from '../mikro-orm.ts'
