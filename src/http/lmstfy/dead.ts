import { json, type Reply } from '../call.ts'
import { limitOf, respawnTtlOf } from './parameters.ts'
import { queueOf, type Request } from './request.ts'

export async function respawnDead(request: Request): Promise<Reply> {
  const { call, defaults, jobs, metrics } = request
  const limit = limitOf(call.query)
  const ttl = respawnTtlOf(call.query, defaults)
  const count = await jobs.respawn(queueOf(request), limit, ttl)
  metrics.respawned(request, count)
  return json(200, { msg: 'respawned', count })
}

export async function deleteDead(request: Request): Promise<Reply> {
  await request.jobs.deleteDead(queueOf(request), limitOf(request.call.query))
  return { status: 204 }
}

/** Also jobs that aren't due yet. Those in work stay. */
export async function destroy(request: Request): Promise<Reply> {
  await request.jobs.destroy(queueOf(request))
  return { status: 204 }
}
