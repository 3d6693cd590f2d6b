const graphileWorker = {
  load: () => import('graphile-worker'),
  async produce({ Logger, makeWorkerUtils }, connectionString) {
    const utils = await makeWorkerUtils({ connectionString, logger: new Logger(() => () => {}) })
    await utils.addJob('update', { seq: 1 })
  },
  async work({ Logger, run }, connectionString) {
    const logger = new Logger(() => () => {})
    await run({ connectionString, logger, noHandleSignals: true, taskList: { update() {} } })
  },
}

const pgBoss = {
  load: () => import('pg-boss'),
  /** Without what only one process of many need do. */
  async produce({ PgBoss }, connectionString) {
    const boss = await new PgBoss({ connectionString, supervise: false, schedule: false }).start()
    await boss.send('updates', { seq: 1 })
  },
  async work({ PgBoss }, connectionString) {
    const boss = await new PgBoss({ connectionString, useListenNotify: true }).start()
    await boss.work('updates', async () => {})
  },
}

export const peers = { 'graphile-worker': graphileWorker, 'pg-boss': pgBoss }
