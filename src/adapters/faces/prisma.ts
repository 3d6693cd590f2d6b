export { transactionsOf } from '../prisma.ts'
