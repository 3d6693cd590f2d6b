export { transactionsOf } from '../sequelize.ts'
