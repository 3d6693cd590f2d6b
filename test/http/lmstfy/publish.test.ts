import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { decoded, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const MIB = 1024 * 1024

test('PUT publishes a body of any bytes, and a consume brings it back', async () => {
  const { api, consume } = await gateway()
  const body = randomBytes(MIB)
  const published = await api('PUT', 'bytes', { body })
  expect(published.status).toBe(201)
  expect(published.json).toEqual({
    msg: 'published',
    job_id: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
  })
  const job = await consume('bytes', '?count=1')
  expect(job).toEqual({
    msg: 'new job',
    namespace: 'ns',
    queue: 'bytes',
    job_id: published.json.job_id,
    data: body.toString('base64'),
    ttl: expect.any(Number),
    elapsed_ms: expect.any(Number),
    remain_tries: 0,
    attributes: null,
  })
  expect(job.ttl).toBeGreaterThan(86_390)
  expect(job.ttl).toBeLessThanOrEqual(86_400)
})

test('an empty body is one, too', async () => {
  const { publish, consume } = await gateway()
  await publish('empty', '')
  expect((await consume('empty')).data).toBe('')
})

test('a job is a row with an id of its own, in a queue with the name of both', async () => {
  const { publish } = await gateway()
  const id = await publish('rows', 'body', '?tries=3&ttl=0')
  const { items } = await env.lockstep.find('ns/rows', {})
  expect(items).toMatchObject([
    {
      id,
      payloads: [{ payload: Buffer.from('body').toString('base64'), headers: { tries: 3, expires: 0 } }],
    },
  ])
})

test.each([
  ['?delay=-1', 'invalid delay'],
  ['?delay=', 'invalid delay'],
  ['?delay=1.5', 'invalid delay'],
  ['?delay=4294967296', 'invalid delay'],
  ['?delay=1e9', 'invalid delay'],
  ['?ttl=x', 'invalid ttl'],
  ['?ttl=4294967296', 'invalid ttl'],
  ['?tries=65536', 'invalid tries'],
  ['?tries=', 'invalid tries'],
  ['?tries=0', "tries shouldn't be zero"],
  ['?ttl=5&delay=6', 'ttl is shorter than delay'],
])('PUT with %s says %s', async (query, error) => {
  const { api } = await gateway()
  for (const path of [`q${query}`, `q/bulk${query}`, `q/job/any${query}`]) {
    const { status, json } = await api('PUT', path, { body: '[1]' })
    expect([status, json]).toEqual([400, { error }])
  }
})

test('ttl 0 lives for ever, whatever the delay', async () => {
  const { api } = await gateway()
  expect((await api('PUT', 'later?ttl=0&delay=4294967295', { body: 'x' })).status).toBe(201)
})

test('a body of one byte too much is 413', async () => {
  const { api, consume } = await gateway()
  const { status, json } = await api('PUT', 'large', { body: Buffer.alloc(MIB + 1) })
  expect([status, json]).toEqual([413, { error: 'body too large' }])
  expect(await consume('large')).toBeNull()
})

test('a body that is much too large is read on, so that the client hears of it', async () => {
  const { port, token } = await gateway()
  const length = 16 * MIB
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(port, '127.0.0.1').pause().once('error', reject)
    socket.write(
      `PUT /api/ns/large HTTP/1.1\r\nHost: here\r\nX-Token: ${token}\r\nContent-Length: ${length}\r\n\r\n`,
    )
    socket.write(Buffer.alloc(length), () => socket.on('data', (data) => resolve(String(data))).resume())
  })
  expect(answer).toMatch(/^HTTP\/1.1 413 .*{"error":"body too large"}$/s)
})

test('attributes come back, with names in lower case, cut to their length', async () => {
  const { api, consume } = await gateway()
  const headers = {
    'Enable-Job-Version': 'Yes',
    'Job-Attr-Trace': 'v'.repeat(200),
    [`JOB-ATTR-${'N'.repeat(40)}`]: 'x',
  }
  const { json } = await api('PUT', 'attributes', { body: 'x', headers })
  expect(json.job_id).toMatch(/^1[0-9A-HJKMNP-TV-Z]{26}$/)
  const { attributes, elapsed_ms } = await consume('attributes')
  expect(attributes).toEqual({ trace: 'v'.repeat(128), ['n'.repeat(32)]: 'x' })
  expect(elapsed_ms).toBeLessThan(10_000)
})

test.each([
  ['in UTF-8 come back as they are', 'Zürich 北京 🚀', 'Zürich 北京 🚀'],
  ['have 128 bytes, and no half character', `${'x'.repeat(126)}京`, 'x'.repeat(126)],
  ['in no UTF-8 are taken for Latin-1', Buffer.from('Zürich', 'latin1'), 'Zürich'],
])('attributes %s', async (_, value, stored) => {
  const { api, consume } = await gateway()
  // Before a body of bytes, Node sends each character of a header as a byte.
  const bytes = Buffer.from(value as string).toString('latin1')
  const headers = { 'Enable-Job-Version': 'YES', 'Job-Attr-City': bytes }
  await api('PUT', 'cities', { body: Buffer.from('x'), headers })
  expect((await consume('cities')).attributes).toEqual({ city: stored })
})

test('attributes are left out where nobody asks for them, and 17 are too many', async () => {
  const { api, consume } = await gateway()
  await api('PUT', 'plain', { body: 'x', headers: { 'Job-Attr-A': '1' } })
  expect((await consume('plain')).attributes).toBeNull()
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`Job-Attr-${n}`, 'x']))
  const { status, json } = await api('PUT', 'plain', {
    body: 'x',
    headers: { ...many, 'enable-job-version': 'YES' },
  })
  expect([status, json]).toEqual([400, { error: 'too many attributes, cannot exceed 16' }])
})

test('bulk publishes each element as it was written', async () => {
  const { api, consume } = await gateway()
  const elements = ['{"a" :  1, "b":[ 1,2 ]}', '"a,]\\" b"', ' 12.50 '.trim(), 'null', '[]']
  const { status, json } = await api('PUT', 'bulk/bulk', { body: ` [ ${elements.join(' ,\n')} ] ` })
  expect(status).toBe(201)
  expect(json).toEqual({ msg: 'published', job_ids: Array.from({ length: 5 }, () => expect.any(String)) })
  const jobs = await consume('bulk', '?count=10')
  expect(jobs.map(({ data }: { data: string }) => decoded(data))).toEqual(elements)
  expect(jobs.map(({ job_id }: { job_id: string }) => job_id)).toEqual(json.job_ids)
})

test.each([
  ['{}', 400, 'request body should be an array of objects'],
  ['[1,', 400, 'request body should be an array of objects'],
  ['', 400, 'request body should be an array of objects'],
  ['null', 400, 'no jobs'],
  ['[]', 400, 'no jobs'],
  [JSON.stringify(Array.from({ length: 65 }, () => 1)), 400, 'too many jobs'],
  [`["${'x'.repeat(MIB)}"]`, 413, 'job too large'],
])('bulk of %.20s says %i', async (body, status, error) => {
  const { api } = await gateway()
  const answer = await api('PUT', 'bulk-wrong/bulk', { body })
  expect([answer.status, answer.json]).toEqual([status, { error }])
})

test('republishing gives a new id, and the old job is gone', async () => {
  const { api, publish, consume } = await gateway()
  const old = await publish('again', 'old')
  const { status, json } = await api('PUT', `again/job/${old}`, { body: 'new' })
  expect(status).toBe(201)
  const job = await consume('again')
  expect([job.job_id, decoded(job.data)]).toEqual([json.job_id, 'new'])
  expect(await consume('again')).toBeNull()
  expect((await api('PUT', 'again/job/unknown', { body: 'x' })).status).toBe(201)
})

test('e: republishing with a bad parameter keeps the old job', async () => {
  const { api, publish, consume } = await gateway()
  const id = await publish('kept', 'old')
  expect((await api('PUT', `kept/job/${id}?tries=0`, { body: 'new' })).status).toBe(400)
  expect((await consume('kept')).job_id).toBe(id)
})

test('f: bulk is all or none', async () => {
  const { api } = await gateway()
  await env.pool.query(
    `CREATE FUNCTION refuse_second() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN
       IF NEW.payload = '"InNlY29uZCI="' THEN RAISE EXCEPTION 'refused'; END IF;
       RETURN NEW;
     END $$;
     CREATE TRIGGER refuse BEFORE INSERT ON lockstep.jobs FOR EACH ROW EXECUTE FUNCTION refuse_second()`,
  )
  env.later(() => env.pool.query('DROP TRIGGER refuse ON lockstep.jobs; DROP FUNCTION refuse_second'))
  expect((await api('PUT', 'atomic/bulk', { body: '["first","second"]' })).status).toBeGreaterThanOrEqual(500)
  expect((await api('GET', 'atomic/size')).json.size).toBe(0)
})
