import { Socket } from 'node:net'
import { Client as NeonClient, Pool as NeonPool, neonConfig } from '@neondatabase/serverless'
import pg from 'pg'
import WebSocket from 'ws'
import type { LockstepOptions } from '../../../src/index.ts'
import type { WebSocketProxy } from '../../support/websocket-proxy.ts'
import type { Tokens } from './tokens.ts'

export type Connecting = Pick<LockstepOptions, 'pool' | 'createClient'>

class OwnClient extends pg.Client {}

/** Knows no callbacks. */
class PromisingClient extends pg.Client {
  override connect(): Promise<pg.Client> {
    return super.connect()
  }
}

/** Ways to connect with a token that is fetched for each connection. */
export const KINDS: Readonly<Record<string, (tokens: Tokens) => Connecting>> = {
  'a password function': (tokens) => ({ pool: new pg.Pool({ ...tokens.place, password: tokens.fetch }) }),
  'a stream': (tokens) => ({
    pool: new pg.Pool({ ...tokens.place, password: tokens.fetch, stream: () => new Socket() }),
  }),
  'a class of client': (tokens) => ({
    pool: new pg.Pool({ ...tokens.place, password: tokens.fetch, Client: OwnClient } as pg.PoolConfig),
  }),
  'a function that creates clients': (tokens) => ({
    pool: new pg.Pool({ ...tokens.place, password: tokens.fetch }),
    createClient: (options) => new pg.Client({ ...options, ...tokens.place, password: tokens.fetch }),
  }),
  'one that takes a moment, and passes no options on': (tokens) => ({
    pool: new pg.Pool({ ...tokens.place, password: tokens.fetch }),
    createClient: async () => new PromisingClient({ ...tokens.place, password: await tokens.fetch() }),
  }),
  'a module that creates clients': (tokens) => {
    process.env.LOCKSTEP_TEST_LOGIN = tokens.file
    return {
      pool: new pg.Pool({ ...tokens.place, password: tokens.fetch }),
      createClient: new URL('./module.mjs', import.meta.url),
    }
  },
  'Neon’s pool': (tokens) => ({
    pool: new NeonPool({ ...tokens.place, password: tokens.fetch } as never) as unknown as pg.Pool,
  }),
  'Neon’s clients': (tokens) => ({
    pool: new NeonPool({ ...tokens.place, password: tokens.fetch } as never) as unknown as pg.Pool,
    createClient: async (options) =>
      new NeonClient({ ...(options as object), ...tokens.place, password: await tokens.fetch() }),
  }),
}

/** Neon's driver reaches every server through this proxy. */
export function useProxy({ port }: WebSocketProxy): void {
  Object.assign(neonConfig, {
    wsProxy: (host: string, to: number | string) => `127.0.0.1:${port}/v1?address=${host}:${to}`,
    useSecureWebSocket: false,
    pipelineConnect: false,
    webSocketConstructor: WebSocket,
  })
}
