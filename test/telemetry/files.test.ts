import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { defineQueue } from '../../src/index.ts'
import { DATABASE_GAUGES, METRICS, type Metric, WORKER_GAUGES } from '../../src/telemetry/catalogue.ts'
import { codeIn } from '../support/docs-code.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'
import { hasPromtool, promtool } from './promtool.ts'

const env = useWorkers()
const folder = mkdtempSync(join(tmpdir(), 'lockstep-telemetry-'))
afterAll(() => rmSync(folder, { recursive: true }))

const RULES = 'docs/telemetry/prometheus-rules.yaml'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string }
}
interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly { readonly expr: string }[]
}
interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
  readonly panels: readonly Panel[]
}

const rules: readonly Rule[] = parse(readFileSync(RULES, 'utf8')).groups.flatMap(
  (group: { rules: Rule[] }) => group.rules,
)
const dashboard: Dashboard = JSON.parse(readFileSync('docs/telemetry/grafana-dashboard.json', 'utf8'))
const expressions = dashboard.panels.flatMap(({ targets }) => (targets ?? []).map(({ expr }) => expr))

const catalogue: readonly Metric[] = [METRICS, WORKER_GAUGES, DATABASE_GAUGES].flatMap((some) =>
  Object.values<Metric>(some),
)
/** Every name that a query may use, and the labels that go with it. */
const known = new Map<string, readonly string[]>(
  catalogue.flatMap(({ name, kind, labels }) => {
    const names = kind === 'histogram' ? ['bucket', 'sum', 'count'].map((part) => `${name}_${part}`) : [name]
    return names.map((one) => [`lockstep_${one}`, labels] as const)
  }),
)
const namesIn = (text: string) => [...text.matchAll(/\blockstep_\w+/g)].map(([name]) => name)

test('the dashboard and the alerts name only metrics that there are', () => {
  const variables = dashboard.templating.list.map(({ definition = '' }) => definition)
  const all = [...expressions, ...variables, ...rules.map(({ expr }) => expr)]
  expect(all.filter((text) => namesIn(text).length === 0 && text !== '')).toEqual([])
  expect(all.flatMap(namesIn).filter((name) => !known.has(name))).toEqual([])
})

test('the dashboard shows every metric', () => {
  const shown = expressions.flatMap(namesIn)
  const isShown = ({ name }: Metric) => shown.some((one) => one.startsWith(`lockstep_${name}`))
  expect(catalogue.filter((metric) => !isShown(metric)).map(({ name }) => name)).toEqual([])
})

test('labels of queries belong to their metrics', () => {
  for (const text of [...expressions, ...rules.map(({ expr }) => expr)])
    for (const [, name, selector] of text.matchAll(/\b(lockstep_\w+)\{([^}]*)\}/g))
      for (const [, label] of selector!.matchAll(/(\w+)\s*[=!]/g))
        expect([name, known.get(name!)]).toEqual([name, expect.arrayContaining([label])])
})

test('panels have numbers, titles and the data source that is chosen', () => {
  const shown = dashboard.panels.filter(({ type }) => type !== 'row')
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
  for (const panel of shown)
    expect(panel).toMatchObject({
      title: expect.stringMatching(/./),
      description: expect.stringMatching(/\.$/),
      datasource: { uid: expect.stringMatching(/^\$\{datasource\}$/) },
    })
})

test('alerts say what is wrong, and how bad that is', () => {
  for (const rule of rules)
    expect(rule).toMatchObject({
      labels: { severity: expect.stringMatching(/^(info|warning|critical)$/) },
      annotations: { summary: expect.stringMatching(/./) },
    })
})

test.skipIf(!hasPromtool)('Prometheus reads all queries', () => {
  expect(promtool(['check', 'rules', RULES])).toBe('')
  const recorded = expressions.map((expr, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$queue', '.*'),
  }))
  const file = join(folder, 'panels.yaml')
  writeFileSync(file, stringify({ groups: [{ name: 'panels', rules: recorded }] }))
  expect(promtool(['check', 'rules', file])).toBe('')
})

test('the docs have every metric, with both names', () => {
  const rows = readFileSync('docs/telemetry.md', 'utf8').matchAll(
    /^\| `(lockstep_\w+)` \| (?:`([\w.]+)`|–) \|/gm,
  )
  const listed = [...rows].map(([, name, otel]) => [name, otel])
  expect(listed.sort()).toEqual(catalogue.map(({ name, otel }) => [`lockstep_${name}`, otel?.name]).sort())
})

test('the docs show the query of the file', () => {
  const file = readFileSync('docs/telemetry/keda-scaledobject.yaml', 'utf8')
  expect(file).toContain(codeIn('docs/telemetry.md', 'Dashboard and alerts', 'sql')[0]!.trim())
})

const OF_Q = '{queue="q"}'
const lease = (bound: string) => `lockstep_lease_renewal_seconds_bucket{instance="i",le="${bound}"}`
const performed = (outcome: string) => `lockstep_performed_total{queue="q",outcome="${outcome}"}`

/** What is measured every minute, as Prometheus' tests write it, and the alerts that fire after an hour and a half. */
const scenes: readonly [Record<string, string>, readonly string[]][] = [
  [{ [`lockstep_lag_seconds${OF_Q}`]: '600', [`lockstep_queue_paused${OF_Q}`]: '0' }, ['LockstepLag']],
  [{ [`lockstep_lag_seconds${OF_Q}`]: '200', [`lockstep_queue_paused${OF_Q}`]: '0' }, []],
  [
    {
      [`lockstep_lag_seconds${OF_Q}`]: '600',
      [`lockstep_queue_paused${OF_Q}`]: '1',
      [`lockstep_jobs_due${OF_Q}`]: '5',
    },
    ['LockstepPaused'],
  ],
  [{ [`lockstep_jobs_due${OF_Q}`]: '5', 'lockstep_shards{instance="i"}': '0' }, ['LockstepNoWorker']],
  [{ [`lockstep_jobs_due${OF_Q}`]: '5' }, ['LockstepNoWorker']],
  [{ [`lockstep_jobs_due${OF_Q}`]: '5', 'lockstep_shards{instance="i"}': '16' }, []],
  [{ [performed('failed')]: '0+30', [performed('completed')]: '0+70' }, ['LockstepFailing']],
  [{ [performed('failed')]: '0+1', [performed('completed')]: '0+70' }, []],
  [{ [`lockstep_died_total${OF_Q}`]: '0+1' }, ['LockstepDeaths']],
  [{ [`lockstep_died_total${OF_Q}`]: '7' }, []],
  [{ [`lockstep_enqueue_errors_total${OF_Q}`]: '0+1' }, ['LockstepEnqueueErrors']],
  [{ [`lockstep_rescued_total${OF_Q}`]: '0+1' }, ['LockstepCrashes']],
  [{ [`lockstep_refused_total${OF_Q}`]: '0+1' }, ['LockstepRefused']],
  [{ [lease('1')]: '0', [lease('2.5')]: '0+10', [lease('+Inf')]: '0+10' }, ['LockstepSlowLease']],
  [{ [lease('0.01')]: '0+10', [lease('1')]: '0+10', [lease('+Inf')]: '0+10' }, []],
  [{ 'lockstep_oldest_snapshot_seconds{instance="i"}': '4000' }, ['LockstepOldSnapshot']],
  [{ 'lockstep_database_readable{instance="i"}': '0' }, ['LockstepDatabaseUnreadable']],
  [
    {
      'lockstep_database_readable{instance="i"}': '1',
      'lockstep_oldest_snapshot_seconds{instance="i"}': '5',
    },
    [],
  ],
]

test('each alert has a scene in which it fires', () => {
  expect([...new Set(scenes.flatMap(([, fired]) => fired))].sort()).toEqual(
    rules.map(({ alert }) => alert).sort(),
  )
})

test.skipIf(!hasPromtool).each(scenes)('of %o, the alerts %o fire', (measured, fired) => {
  const series = Object.entries(measured).map(([name, values]) => ({
    series: name,
    values: values.includes('+') ? `${values}x100` : `${values}+0x100`,
  }))
  const file = join(folder, 'scene.yaml')
  const expectation = {
    expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
    eval_time: '90m',
    exp_samples: fired.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
  }
  const scene = { interval: '1m', input_series: series, promql_expr_test: [expectation] }
  writeFileSync(file, stringify({ rule_files: [resolve(RULES)], evaluation_interval: '1m', tests: [scene] }))
  expect(promtool(['test', 'rules', file])).toBe('')
})

test('the query for KEDA is one line, and counts what is due and in work of its queue', async () => {
  const documents = parseAllDocuments(readFileSync('docs/telemetry/keda-scaledobject.yaml', 'utf8'))
  const [scaled, authentication] = documents.map((one) => one.toJS())
  expect(scaled.kind).toBe('ScaledObject')
  expect(authentication.kind).toBe('TriggerAuthentication')
  const [trigger] = scaled.spec.triggers
  expect(trigger.authenticationRef.name).toBe(authentication.metadata.name)
  const { query } = trigger.metadata
  expect(query).not.toContain('\n')
  const ask = async () => {
    const [row] = await env.sql(query)
    return Object.values(row!)
  }
  expect(await ask()).toEqual(['0'])
  const gate = new Gate()
  const orders = defineQueue('orders', { perform: () => gate.opened })
  await env.lockstep.enqueue(orders, [
    { id: 'a' },
    { id: 'b' },
    { id: 'c', performIn: Date.now() + 3_600_000 },
  ])
  expect(await ask()).toEqual(['2'])
  const worker = env.create({ queues: [orders], slots: 1 })
  const started = next(worker, 'started')
  await worker.start()
  await started
  expect(await ask()).toEqual(['2'])
  gate.open()
  await eventually(async () => expect(await ask()).toEqual(['0']))
  // The queue's shards by default are as many processes as can work.
  expect(scaled.spec.maxReplicaCount).toBe(orders.shards)
})
