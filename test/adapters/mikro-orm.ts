import { setTimeout as sleep } from 'node:timers/promises'
import type { EntityManager } from '@mikro-orm/postgresql'
import { transactionsOf as mikroOrmTransactions } from '../../src/adapters/mikro-orm.ts'
import { library } from './adapter.ts'

export const mikroOrm = library<EntityManager>({
  name: 'MikroORM',
  wording: {
    given: 'a MikroORM EntityManager',
    callback: 'the em that em.transactional()',
    writable:
      'begin it without { readOnly: true }; where default_transaction_read_only is on, let its first statement be SET TRANSACTION READ WRITE',
  },
  packages: ['@mikro-orm/postgresql'],
  node: 22,
  async open(connectionString) {
    // An older Node can't load it.
    const { MikroORM } = await import('@mikro-orm/postgresql')
    const orm = await MikroORM.init({
      clientUrl: connectionString,
      entities: [],
      discovery: { warnWhenNoEntities: false },
    })
    return {
      transactions: mikroOrmTransactions<EntityManager>(orm),
      transaction: (work) => orm.em.fork().transactional(work),
      nested: (tx, work) => tx.transactional(work),
      execute: (tx, text) => tx.execute(text),
      mistakes: {
        'a MikroORM instance': orm,
        'a MikroORM EntityManager outside a transaction': orm.em.fork(),
      },
      // It waits for a client that it does not give back after a lost connection.
      close: () => Promise.race([orm.close(), sleep(1_000)]),
    }
  },
})
