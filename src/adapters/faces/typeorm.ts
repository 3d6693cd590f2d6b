export { transactionsOf } from '../typeorm.ts'
