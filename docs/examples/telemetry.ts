// The code of docs/telemetry.md.

import { createServer } from 'node:http'
import { type Configure, type Instrumentation, Lockstep } from 'pg-lockstep'
import { otel } from 'pg-lockstep/otel'
import { prometheus } from 'pg-lockstep/prometheus'

export function withPrometheus(connectionString: string): Lockstep {
  const telemetry = prometheus()
  const lockstep = new Lockstep({ connectionString, instrumentation: [telemetry] })

  const server = createServer(async (_, response) => {
    response.setHeader('content-type', telemetry.contentType)
    response.end(await telemetry.metrics())
  })
  server.listen(9464)
  return lockstep
}

export function withOpenTelemetry(connectionString: string): Lockstep {
  const lockstep = new Lockstep({ connectionString, instrumentation: [otel()] })
  return lockstep
}

export const configure: Configure = ({ rank }) => {
  const telemetry = prometheus({ databaseGauges: rank === 0 })
  const server = createServer(async (_, response) => {
    response.setHeader('content-type', telemetry.contentType)
    response.end(await telemetry.metrics())
  })
  server.listen(9464 + rank)
  return { instrumentation: [telemetry, otel({ metrics: false })], stop: () => server.close() }
}

declare const statsd: { timing(name: string, ms: number): void; increment(name: string): void }

export const toStatsd: Instrumentation = {
  perform:
    ({ queue }) =>
    ({ duration }) =>
      statsd.timing(`jobs.${queue}`, duration),
  fail: ({ queue }) => statsd.increment(`jobs.${queue}.failed`),
}
