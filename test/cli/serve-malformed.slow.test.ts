import { expect, test } from 'vitest'
import { answerTo, useServed } from './served.ts'

const { start } = useServed()

test('headers that do not come in time get problem details', { timeout: 60_000 }, async () => {
  const { port } = await start()
  const answer = await answerTo(port, 'GET /healthz HTTP/1.1\r\nhost: ')
  expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
  expect(JSON.parse(answer.split('\r\n\r\n')[1]!)).toMatchObject({
    status: 408,
    code: 'LOCKSTEP_SLOW_REQUEST',
  })
})
