type Omitted = undefined | symbol | ((...given: never[]) => unknown)

/**
 * What JSON makes of a value of this type, and what a handler gets of it: a `Date` becomes text, functions and `undefined` are
 * left out, and a Map or a Set has no members. A type that is JSON stays as it is.
 */
export type Json<T> = unknown extends T
  ? T
  : T extends { toJSON(key: never): infer Shown }
    ? Json<Shown>
    : T extends string | number | boolean | null
      ? T
      : T extends bigint | Omitted
        ? never
        : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
          ? Record<string, never>
          : T extends readonly unknown[]
            ? { [Index in keyof T]: T[Index] extends Omitted ? null : Json<T[Index]> }
            : { [Key in keyof T as KeptKey<T, Key>]: JsonMember<T[Key]> }

type KeptKey<T, Key extends keyof T> = Key extends symbol ? never : T[Key] extends Omitted ? never : Key
type JsonMember<T> = unknown extends T ? T : Json<Exclude<T, Omitted>> | Extract<T, undefined>
