import { Lockstep } from 'pg-lockstep'
import { lockstepLmstfy } from 'pg-lockstep/http'

const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const lmstfy = lockstepLmstfy({ pools: { default: lockstep } })

/** Of Bun, Deno or Hono, or of a route of Next.js. */
export const fetch = (request: Request) => lmstfy.fetch(request)
/** Tokens and limits: where only operators come. */
export const administer = (request: Request) => lmstfy.admin.fetch(request)

process.once('SIGTERM', async () => {
  lmstfy.quiet()
  await lmstfy.stop()
  await lockstep.close()
})
