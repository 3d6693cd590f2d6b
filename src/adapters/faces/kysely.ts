export { transactionsOf } from '../kysely.ts'
