import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { gatedQuery, installGates } from './gates.ts'
import { statementsOf } from './statements.ts'

describe('a body is split into its statements', () => {
  const texts = (body: string) => statementsOf(body).map(({ text }) => text)

  test('those in branches too', () => {
    const body = 'BEGIN a; IF b AND (CASE WHEN c THEN d END) THEN e; ELSIF f THEN g; ELSE h; END IF; i; END'
    expect(texts(body)).toEqual(['a;', 'e;', 'g;', 'h;', 'i;'])
  })

  test('whatever stands in strings, comments, quotes and parentheses', () => {
    const body = `DECLARE x text := 'BEGIN'; BEGIN -- not; here
      a ';' "b;" $$;$$; /* END; */ (SELECT 1; 2) c;
      END`
    expect(texts(body)).toEqual([`a ';' "b;" $$;$$;`, '(SELECT 1; 2) c;'])
  })

  test('and a loop over a query is one, with all that is done with its rows', () => {
    const body =
      'BEGIN a; FOR x IN SELECT CASE WHEN y THEN 1 END FROM z LOOP IF x THEN b; END IF; c; END LOOP; d; END'
    expect(statementsOf(body).map(({ text }) => text)).toEqual([
      'a;',
      'FOR x IN SELECT CASE WHEN y THEN 1 END FROM z LOOP IF x THEN b; END IF; c; END LOOP;',
      'd;',
    ])
  })

  test('and another loop is refused rather than left in one piece', () => {
    expect(() => statementsOf('BEGIN LOOP a; END LOOP; END')).toThrow('LOOP')
  })
})

describe('the protocol', () => {
  let env: StoreEnvironment
  beforeAll(async () => {
    env = await openStore()
  })
  afterAll(() => env?.close())

  test('has a gate before each statement, and in each that locks rows', async () => {
    const gates = await installGates(env)
    for (const [name, places] of Object.entries({
      enqueue: ['1', '2', '3', '3 locks', '4', '5'],
      enqueue_many: ['1'],
      put_jobs: ['1', '2', '2 locks', '3', '4'],
      claim: ['1', '2', '2 locks', '3', '4', '5', '6'],
      is_gone: ['1'],
      remove_silent: ['1', '1 locks', '2'],
      lock_claims: ['1', '1 locks', '2', '2 locks'],
      complete: ['1', '2', '3', '4', '5', '6', '7', '8'],
      fail_claims: ['1', '2'],
      discard: ['1', '2'],
      bury_failed: ['1', '2', '3', '4'],
      release: ['1', '2'],
      lock_waiting: ['1', '1 locks'],
      delete_jobs: ['1', '2', '3'],
      kill: ['1', '2', '3'],
      perform_now: ['1', '2'],
      requeue: ['1', '2', '3', '4', '5'],
    })) {
      const found = gates.filter((gate) => gate.startsWith(`${name} `))
      expect(found).toEqual(places.map((place) => `${name} ${place}`))
    }
    expect(gates).toEqual(expect.arrayContaining(['rehome 2 locks']))
  })

  test('stops in the store’s own statements where they lock rows', () => {
    const listing = 'select id from "lockstep"."jobs" as "j" where a order by b limit 1 for update of "j"'
    expect(gatedQuery('x', listing)).toBe(
      `select id from "lockstep"."jobs" as "j" where a  AND (SELECT lockstep.gate('x locks')) order by b limit 1 for update of "j"`,
    )
    expect(gatedQuery('x', 'SELECT 1')).toBe('SELECT 1')
  })
})
