export { transactionsOf } from '../knex.ts'
