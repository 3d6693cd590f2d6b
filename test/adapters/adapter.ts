import type { EnqueueTransaction, Transactions } from '../../src/index.ts'

/** What the conformance tests need to know of a library. */
export interface Library<Tx extends EnqueueTransaction> {
  /** As people name it, with what it runs on. */
  readonly name: string
  readonly packages: readonly string[]
  /** What messages say. */
  readonly wording: Wording
  /** The lowest major version of Node it runs on. Default: ours. */
  readonly node?: number
  open(connectionString: string): Promise<Application<Tx>>
}

interface Wording {
  /** Of a transaction. */
  readonly given: string
  /** What is passed in a callback of whose. Undefined for what has no callbacks. */
  readonly callback?: string
  /** How to begin one that may write. */
  readonly writable: string
}

/** An application that uses the library. */
export interface Application<Tx extends EnqueueTransaction> {
  /** Commits what `work` does; if it throws, rolls back and rethrows. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** For handlers. Undefined if the worker has transactions of its own for them. */
  readonly transactions?: Transactions<Tx>
  /** A transaction within one, which is a savepoint. Undefined if the library has none. */
  readonly nested?: <T>(tx: Tx, work: (inner: Tx) => Promise<T>) => Promise<T>
  /** Runs a statement of the application's own. */
  execute(tx: Tx, text: string): Promise<unknown>
  /** What people pass by mistake, under the name that the message has for it. */
  readonly mistakes: Readonly<Record<string, unknown>>
  close(): Promise<unknown>
}

/** One with its type of transactions forgotten, for lists. */
export interface AnyLibrary extends Omit<Library<EnqueueTransaction>, 'open'> {
  // biome-ignore lint/suspicious/noExplicitAny: each library has a type of its own
  open(connectionString: string): Promise<Application<any>>
}

/** Checks that the type of the library's transactions is one that `enqueue` accepts. */
export function library<Tx extends EnqueueTransaction>(one: Library<Tx>): AnyLibrary {
  return one
}
