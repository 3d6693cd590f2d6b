import { services } from '../../lib/services.ts'

/** Without this, the build would answer once and for all. */
export const dynamic = 'force-dynamic'

export async function GET(): Promise<Response> {
  try {
    await services().pool.query('SELECT')
    return Response.json({ status: 'ok' })
  } catch (error) {
    console.error('the database does not answer:', error)
    return Response.json({ status: 'the database does not answer' }, { status: 503 })
  }
}
