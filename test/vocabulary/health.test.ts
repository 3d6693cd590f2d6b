import { describe, expect, it } from 'vitest'
import { type Health, judge, type Vitals } from '../../src/health.ts'
import { healthResponse } from '../../src/index.ts'

const WELL: Vitals = {
  eventLoopDelay: 3,
  leaseLeft: 9_000,
  leaseValid: true,
  database: true,
  wakeUps: true,
  working: 0,
}

describe('a worker', () => {
  it('that has started, and reaches the database, is live and ready', () => {
    expect(judge('running', true, WELL)).toEqual({ live: true, ready: true, started: true, reasons: [] })
  })

  it.each([
    ['new', false, {}, ['it was not started']],
    ['starting', false, { database: false, leaseValid: false }, ['it is starting']],
    ['quiet', true, {}, ['it is quiet, and takes nothing new']],
    ['stopping', true, { leaseValid: false }, ['it is stopping']],
    ['running', true, { leaseValid: false }, ['its lease could not be renewed']],
    ['running', true, { database: false }, ['the database does not answer']],
  ] as const)('%s, started %s, %j is live, not ready: %j', (state, started, vitals, reasons) => {
    expect(judge(state, started, { ...WELL, ...vitals })).toEqual({
      live: true,
      ready: false,
      started,
      reasons,
    })
  })

  it('without a wake-up connection is ready, since it polls', () => {
    expect(judge('running', true, { ...WELL, wakeUps: false })).toMatchObject({ ready: true, reasons: [] })
  })

  it('whose event loop was blocked for long is not live', () => {
    expect(judge('running', true, { ...WELL, eventLoopDelay: 12_345 })).toEqual({
      live: false,
      ready: false,
      started: true,
      reasons: ['its event loop was blocked for 12345 ms'],
    })
  })
})

describe('a probe', () => {
  const health: Health = {
    ...judge('stopping', true, WELL),
    ...WELL,
    state: 'stopping',
    processId: 7,
  }
  const ask = (url: string, method = 'GET') => healthResponse({ health: () => health }, { url, method })

  it.each([
    ['http://host/livez', 200],
    ['http://host/healthz', 200],
    ['http://host/startupz', 200],
    ['http://host/readyz', 503],
    ['/internal/probes/readyz/', 503],
    ['/livez?verbose', 200],
    ['/livez#/readyz', 200],
    ['http://host/', 404],
    ['http://host/livez/more', 404],
    ['/constructor', 404],
  ])('of %s gets %i', (url, status) => {
    expect(ask(url).status).toBe(status)
  })

  it('gets the reasons and the facts as JSON, and no cache may keep them', async () => {
    const response = ask('/readyz')
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await response.json()).toEqual(health)
  })

  it('by HEAD gets no body, by POST a refusal', async () => {
    expect([ask('/readyz', 'HEAD').status, await ask('/readyz', 'HEAD').text()]).toEqual([503, ''])
    expect(ask('/readyz', 'POST').status).toBe(405)
  })
})
