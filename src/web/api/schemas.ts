/** A JSON Schema, of the dialect of OpenAPI 3.1. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly [keyword: string]: unknown
}

const TEXT = { type: 'string' } as const
const COUNT = { type: 'integer', minimum: 0 } as const
const NUMBER = { type: 'number' } as const
const TIME = { type: 'string', format: 'date-time' } as const
const TRUTH = { type: 'boolean' } as const
const HEADERS = { type: ['object', 'null'] } as const
const AT = {
  ...TIME,
  description: 'When it was counted: counts are shared, and kept for two hundred times as long as that took.',
} as const

const nullable = (schema: Schema) => ({ ...schema, type: [schema.type, 'null'].flat() as string[] })
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const list = (name: string) => ({ type: 'array', items: ref(name) })

/** All of its members are there, and no others. */
function object(properties: Readonly<Record<string, Schema>>, description?: string): Schema {
  const required = Object.keys(properties)
  return {
    type: 'object',
    properties,
    required,
    additionalProperties: false,
    ...(description && { description }),
  }
}

/** Any of its members may be missing. */
function partial(properties: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', properties, additionalProperties: false, minProperties: 1 }
}

const range = (schema: Schema) => partial({ from: schema, to: schema })
const MOMENT = {
  type: ['string', 'integer'],
  description: 'ISO 8601 with its zone, or ms since 1970.',
} as const
const KEY = { ...TEXT, pattern: '^[0-9a-f]{32}$' } as const
const TENANT = { ...nullable(TEXT), description: 'Null: what has none.' } as const
const IDS = { type: 'array', items: TEXT } as const

const counts = { waiting: COUNT, due: COUNT, working: COUNT }
const rounds = {
  processed: COUNT,
  failed: COUNT,
  expired: { ...COUNT, description: 'Payloads that were never handed over, or not again.' },
}
const lag = { ...NUMBER, minimum: 0, description: 'ms since the oldest due job became due.' }
const totals = { ...counts, fresh: COUNT, retrying: COUNT, dead: COUNT, lag, ...rounds }
const lengths = object(
  { length: COUNT, morgue_length: COUNT, lag: { ...NUMBER, minimum: 0 } },
  'What waits, and the morgue, in ids; the lag in s.',
)
const payload = {
  json: { ...nullable(TEXT), description: 'JSON text or its beginning; null: hidden.' },
  cut: { ...TRUTH, description: 'It is only the beginning.' },
}
const next = { ...nullable(TEXT), description: 'For `after`; null on the last page.' }

const choice = (filter: Schema): Schema => ({
  oneOf: [
    object({ ids: IDS }),
    object({ filter }),
    object({ all: { const: true, description: 'Everything in the queue.' } }),
  ],
})

export const SCHEMAS = {
  Description: { type: 'object', description: 'OpenAPI 3.1.' },
  Problem: object({
    type: { const: 'about:blank' },
    title: TEXT,
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: TEXT,
    code: { ...TEXT, pattern: '^LOCKSTEP_' },
  }),
  Session: object({
    token: TEXT,
    actor: nullable(TEXT),
    may: object({ view: TRUTH, act: TRUTH, configure: TRUTH }),
    readOnly: TRUTH,
    base: { ...TEXT, description: 'Where the page is mounted.' },
    version: TEXT,
  }),
  Stats: object({
    at: AT,
    total: lengths,
    by_worker: { type: 'object', additionalProperties: lengths },
  }),
  Queues: object({ at: AT, queues: list('QueueStats'), total: object(totals) }),
  QueueStats: object({ queue: TEXT, shards: COUNT, pausedAt: nullable(TIME), ...totals }),
  Queue: object({ at: AT, stats: ref('QueueStats'), shards: list('Shard') }),
  Shard: object({
    shard: COUNT,
    ...counts,
    lag,
    processId: { type: ['integer', 'null'], description: 'The process that serves it.' },
  }),
  Tenants: object({ at: AT, total: COUNT, rules: list('TenantRule'), items: list('Tenant') }),
  TenantRule: object(
    { over: COUNT, per: { ...NUMBER, description: 's' }, lane: COUNT },
    'Who has pushed more than `over` jobs within `per` goes to `lane`. The last rule that matches decides.',
  ),
  Tenant: object({
    tenant: TEXT,
    waiting: COUNT,
    working: COUNT,
    lag,
    pushes: { type: 'array', items: COUNT, description: 'Within the time of each rule.' },
    lane: { ...COUNT, description: 'Where its next job would go.' },
    throttled: { ...TRUTH, description: 'Whether a rule says so.' },
  }),
  Minutes: object({ items: { type: 'array', items: object({ minute: TIME, ...rounds }) } }),
  Count: object({ count: COUNT, more: { ...TRUTH, description: 'There are more than `count`.' } }),
  Jobs: object({ items: list('JobEntry'), next }),
  Job: object({ items: { ...list('JobEntry'), minItems: 1, maxItems: 2 } }),
  JobEntry: object({
    id: TEXT,
    shard: COUNT,
    lane: COUNT,
    tenant: nullable(TEXT),
    performIn: TIME,
    retryCount: { type: 'integer', minimum: -1 },
    crashes: COUNT,
    error: nullable(TEXT),
    state: { enum: ['waiting', 'working'] },
    claimedAt: nullable(TIME),
    processId: { ...nullable(COUNT), description: '0 if a consumer has claimed it.' },
    leaseEndsAt: nullable(TIME),
    fence: nullable(COUNT),
    payloads: object({
      count: COUNT,
      first: {
        type: 'array',
        items: object({ ...payload, score: NUMBER, headers: HEADERS, expiresIn: nullable(TIME) }),
      },
    }),
  }),
  Dead: object({ items: list('DeadPayload'), next }),
  DeadPayload: object({
    id: TEXT,
    payload: object(payload),
    headers: HEADERS,
    score: NUMBER,
    error: nullable(TEXT),
    diedAt: TIME,
    tenant: nullable(TEXT),
    key: { ...KEY, description: 'Names this dead payload of its job, for `keys` beside `ids`.' },
  }),
  Processes: object({ at: AT, items: list('Process') }),
  Process: object({
    processId: COUNT,
    host: TEXT,
    pid: COUNT,
    version: TEXT,
    queues: IDS,
    slots: COUNT,
    startedAt: TIME,
    expiresAt: TIME,
    quiet: TRUTH,
    working: COUNT,
    overdue: TRUTH,
    request: { enum: ['quiet', 'stop', null] },
    reportedAt: nullable(TIME),
    eventLoopDelay: { ...nullable(NUMBER), description: 'ms' },
    memory: { ...nullable(COUNT), description: 'bytes' },
    shards: list('OwnedShards'),
    doing: list('SlotInWork'),
  }),
  OwnedShards: object({
    queue: TEXT,
    count: COUNT,
    shards: { type: 'array', items: COUNT },
    policy: {
      type: ['object', 'null'],
      description: 'The options that are not the defaults; null: unknown.',
    },
  }),
  SlotInWork: object({ slot: COUNT, queue: TEXT, shard: COUNT, jobs: COUNT, ids: IDS, since: TIME }),
  Asked: object({ processId: COUNT, request: { enum: ['quiet', 'stop'] } }),
  Paused: object({ queue: TEXT, paused: TRUTH }),
  JobChoice: choice(
    partial({
      ids: IDS,
      id: range(TEXT),
      performIn: range(MOMENT),
      retryCount: range({ type: 'integer', minimum: -1 }),
      state: { enum: ['waiting', 'working'] },
      tenant: TENANT,
    }),
  ),
  DeadChoice: choice(
    partial({
      ids: IDS,
      id: range(TEXT),
      diedAt: range(MOMENT),
      score: range(NUMBER),
      keys: { type: 'array', items: KEY },
      tenant: TENANT,
    }),
  ),
  Reshard: object({ shards: { type: 'integer', minimum: 1, maximum: 16_384 } }),
  DeleteQueue: { type: 'object', properties: { withJobs: TRUTH }, additionalProperties: false },
  Progress: object({ done: COUNT, total: COUNT }),
  ProgressLine: {
    oneOf: [ref('Progress'), object({ result: ref('Progress') }), object({ error: ref('Problem') })],
  },
} as const satisfies Record<string, Schema>
