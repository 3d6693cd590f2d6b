import { bodyLimit } from 'hono/body-limit'
import { Problem } from '../../serving/problem.ts'
import { type Guarding, guard } from '../access/guard.ts'
import type { WebApp } from '../view.ts'
import { ACTS } from './acts.ts'
import { LOOKS } from './look.ts'
import type { Route, Tools } from './routes.ts'

export const ROUTES: readonly Route[] = [...LOOKS, ...ACTS]
export const API = '/api/v1'
/** Bytes: a thousand ids of the greatest length, and more. */
const MAX_BODY = 4 * 1024 * 1024

const limited = bodyLimit({
  maxSize: MAX_BODY,
  onError: () => {
    throw new Problem(
      413,
      'LOCKSTEP_BAD_OPTION',
      `the body has more than ${MAX_BODY} bytes: name a range instead`,
    )
  },
})

/** Adds the routes of the API. What it does not know is refused, to those who may view at all. */
export function addApi(app: WebApp, guarding: Guarding, tools: Tools): void {
  for (const { method, path, needs, answer } of ROUTES) {
    const pattern = `${API}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`
    app.on(method.toUpperCase(), pattern, guard(guarding, needs), limited, (context) =>
      answer(context, tools),
    )
  }
  for (const path of new Set(ROUTES.map(({ path }) => path))) {
    const allow = ROUTES.filter((route) => route.path === path).flatMap(({ method }) =>
      method === 'get' ? ['GET', 'HEAD'] : ['POST'],
    )
    app.all(`${API}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`, guard(guarding, 'view'), (context) => {
      throw new Problem(405, 'LOCKSTEP_NOT_FOUND', `${context.req.method} is not allowed here`, {
        allow: allow.join(', '),
      })
    })
  }
  app.all('/api/*', guard(guarding, 'view'), () => {
    throw new Problem(404, 'LOCKSTEP_NOT_FOUND', 'there is no such route; api/v1/openapi.json lists them')
  })
}
