import { expect, test, vi } from 'vitest'
import { send } from '../http/lmstfy/wire.ts'
import { answerTo, useServed } from './served.ts'

vi.setConfig({ testTimeout: 60_000 })

const { start } = useServed()

function parted(answer: string): { head: string; problem: unknown } {
  const [head, body] = answer.split('\r\n\r\n') as [string, string]
  return { head, problem: JSON.parse(body) }
}

test('what is no request, or has headers too large, gets problem details, on both ports, and is in the access log', async () => {
  const { command, port, adminPort } = await start()
  await send(adminPort, 'POST', '/accesslog?status=enable')
  const ids: string[] = []
  for (const place of [port, adminPort]) {
    const bad = parted(await answerTo(place, 'no HTTP\r\n\r\n'))
    expect(bad.head).toMatch(
      /^HTTP\/1\.1 400 Bad Request\r\n(.*\r\n)*content-type: application\/problem\+json/,
    )
    expect(bad.problem).toEqual({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      detail: 'the request is not HTTP/1.1',
      code: 'LOCKSTEP_BAD_OPTION',
    })
    // More than the connection's buffers hold: unread, it would reset the connection.
    const large = parted(await answerTo(place, `GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(8_000_000)}`))
    expect(large.head).toMatch(/^HTTP\/1\.1 431 /)
    expect(large.problem).toMatchObject({ status: 431, code: 'LOCKSTEP_TOO_LARGE' })
    ids.push(/x-request-id: (\w+)/.exec(large.head)![1]!)
  }
  command.child.kill('SIGTERM')
  const { stderr } = await command.ended
  for (const id of ids)
    expect(stderr).toMatch(new RegExp(`^lockstep: - - 431 requestId=${id} .*address=127`, 'm'))
})

test('a body that can’t be read gets problem details, and nothing of it is stored', async () => {
  const { port, adminPort } = await start()
  const { json } = await send(adminPort, 'POST', '/token/ns?description=x')
  const head = `PUT /api/ns/broken HTTP/1.1\r\nhost: x\r\nx-token: ${json.token}\r\ntransfer-encoding: chunked\r\n\r\n`
  const { problem } = parted(await answerTo(port, `${head}1\r\nx\r\nno length\r\n`))
  expect(problem).toMatchObject({ status: 400, code: 'LOCKSTEP_BAD_OPTION' })
  expect((await send(port, 'GET', '/api/ns/broken/size')).json.size).toBe(0)
})

test('what follows a request on its connection is not answered in its place', async () => {
  const { port } = await start()
  const answer = await answerTo(port, 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nno HTTP\r\n\r\n')
  expect(answer).not.toContain(' 400 ')
})
