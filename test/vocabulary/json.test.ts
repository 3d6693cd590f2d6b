import { expectTypeOf, test } from 'vitest'
import type { Json } from '../../src/index.ts'

interface Tree {
  readonly name: string
  readonly children: readonly Tree[]
}
class Money {
  readonly cents = 1
  readonly #currency = 'EUR'
  toJSON(): { cents: number; currency: string } {
    return { cents: this.cents, currency: this.#currency }
  }
}

test('JSON stays as it is', () => {
  expectTypeOf<Json<string>>().toEqualTypeOf<string>()
  expectTypeOf<Json<'a' | 1 | null | boolean>>().toEqualTypeOf<'a' | 1 | null | boolean>()
  expectTypeOf<Json<{ a?: number; readonly b: string[] }>>().toEqualTypeOf<{
    a?: number
    readonly b: string[]
  }>()
  expectTypeOf<Json<[number, { a: 1 }]>>().toEqualTypeOf<[number, { a: 1 }]>()
  expectTypeOf<Json<Tree>['children'][0]['children'][0]['name']>().toEqualTypeOf<string>()
  expectTypeOf<Json<unknown>>().toEqualTypeOf<unknown>()
  // biome-ignore lint/suspicious/noExplicitAny: that is the point
  expectTypeOf<Json<any>>().toBeAny()
  expectTypeOf<Json<Record<string, unknown>>>().toEqualTypeOf<Record<string, unknown>>()
})

test('what JSON changes has the type that a handler gets', () => {
  expectTypeOf<Json<Date>>().toEqualTypeOf<string>()
  expectTypeOf<Json<{ at: Date | null }>>().toEqualTypeOf<{ at: string | null }>()
  expectTypeOf<Json<Money>>().toEqualTypeOf<{ cents: number; currency: string }>()
  expectTypeOf<Json<Map<string, number>>>().toEqualTypeOf<Record<string, never>>()
  expectTypeOf<Json<{ a: number | undefined }>>().toEqualTypeOf<{ a: number | undefined }>()
  expectTypeOf<Json<{ a: number; run(): void; nothing: undefined; [Symbol.iterator]: 1 }>>().toEqualTypeOf<{
    a: number
  }>()
  expectTypeOf<Json<[Date, undefined]>>().toEqualTypeOf<[string, null]>()
})
