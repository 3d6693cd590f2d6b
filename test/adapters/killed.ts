import { defineQueue, type EnqueueTransaction, Lockstep, type Transactions } from '../../src/index.ts'
import type { AnyLibrary } from './adapter.ts'
import { LIBRARIES } from './libraries.ts'

/** Performs a job with each library, and is killed when all their transactions wait for nothing but their COMMIT. */
export interface KilledOptions {
  readonly connectionString: string
  /** Of the queues, each by the name of its library. */
  readonly queues: Readonly<Record<string, string>>
}

/** ms; the shortest there is, since the survivors wait for it. */
const LEASE = 500

process.once('message', (options) => void work(options as KilledOptions))

async function work({ connectionString, queues }: KilledOptions): Promise<void> {
  const lockstep = new Lockstep({ connectionString })
  const served = LIBRARIES.filter(({ name }) => queues[name])
  let waiting = 0
  const arrive = () => {
    waiting += 1
    if (waiting === served.length) process.kill(process.pid, 'SIGKILL')
    return new Promise<never>(() => {})
  }
  for (const library of served)
    await perform(lockstep, connectionString, library, queues[library.name]!, arrive)
}

async function perform(
  lockstep: Lockstep,
  connectionString: string,
  library: AnyLibrary,
  name: string,
  arrive: () => Promise<never>,
): Promise<void> {
  const { execute, transactions } = await library.open(connectionString)
  const write = (tx: EnqueueTransaction) => execute(tx, `INSERT INTO killed VALUES ('${name}')`)
  const queue = transactions
    ? defineQueue(name, {
        transactional: before(transactions, arrive),
        perform: (_, { tx }) => write(tx),
      })
    : defineQueue(name, {
        transactional: true,
        perform: (_, { tx }) => write(tx).then(arrive),
      })
  await lockstep.createWorker({ queues: [queue], slots: 1, lease: LEASE }).start()
}

/** With `arrive` before their COMMIT. */
function before<Tx>(transactions: Transactions<Tx>, arrive: () => Promise<never>): Transactions<Tx> {
  return { transaction: (work) => transactions.transaction((tx) => work(tx).then(arrive)) }
}
