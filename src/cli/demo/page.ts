import { Lockstep } from '../../index.ts'
import { openPage } from '../web/serve.ts'
import { QUEUE_SCHEMA } from './shop.ts'

/** The web page of the demo's queues. */
export interface DemoPage {
  /** Says where it is. */
  readonly told: string
  close(): Promise<void>
}

export async function openDemoPage(connectionString: string): Promise<DemoPage> {
  const lockstep = new Lockstep({ connectionString, schema: QUEUE_SCHEMA })
  const page = await openPage(lockstep, { host: '127.0.0.1', port: 0, path: '/' }, { kind: 'link' })
  return {
    told: `the web page, by a link that works once: ${page.url}`,
    async close() {
      await page.close()
      await lockstep.close()
    },
  }
}
