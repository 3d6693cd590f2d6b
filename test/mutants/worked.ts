import { type Mutant, source } from './mutant.ts'

/** Mistakes that this queue in particular could make, in how workers perform. */
export const WORKED: readonly Mutant[] = [
  {
    name: 'no look at the lease before the handler',
    promise: 'P1',
    breaks: 'A process that stood still for longer than its lease begins a batch that others have by now.',
    edits: [source('worker/performing/perform', 'if (holdsLease()) {', 'if (true as boolean) {')],
    tests: ['worker/p1-last-look.slow'],
  },
  {
    name: 'quiet before the start has ended',
    promise: 'R15',
    breaks: 'A worker locks its shards after it was told to be quiet, and nobody serves them.',
    edits: [
      source(
        'worker/worker',
        `    await this.#started?.catch(() => {})\n    if (this.#state !== 'running') return`,
        `    if (this.#state !== 'running') return`,
      ),
    ],
    tests: ['worker/stop'],
  },
  {
    name: 'no abort at the end of a lease',
    promise: 'P1',
    breaks: 'Handlers are not told that others may have their ids.',
    edits: [source('worker/engine', `    this.abort('the lease of this process ends')\n`, '')],
    tests: ['worker/lease'],
  },
  {
    name: 'a lost answer shrugged off',
    promise: 'P3',
    breaks: 'What a claim took whose answer was lost stays claimed as long as the process lives.',
    edits: [
      source('worker/performing/executor', '    if (isConnectionFailure(error)) await onLostAnswer()\n', ''),
    ],
    tests: ['worker/lease'],
  },
  {
    name: 'a timeout that frees the id',
    promise: 'P1',
    breaks: 'The next handler of an id starts while the one that took too long still runs.',
    edits: [
      source(
        'worker/performing/perform',
        'returned = queue.perform!(batch, context)',
        `const over = new Promise((resolve) => {
          abort.signal.addEventListener('abort', () => timeout.error && resolve(undefined))
        })
        returned = Promise.race([queue.perform!(batch, context), over])`,
      ),
    ],
    tests: ['worker/stop'],
  },
  {
    name: 'no limit to crashes',
    promise: 'R10',
    breaks: 'A poisonous job takes the fleet down for ever, though its crashes are counted.',
    edits: [
      source(
        'worker/performing/batch',
        'payloads.length > 0 && crashes < queue.maxCrashes',
        'payloads.length > 0',
      ),
    ],
    tests: ['processes/kill'],
  },
  {
    name: 'one retry more',
    promise: 'R7',
    breaks: 'A payload runs maxRetryCount + 2 times.',
    edits: [
      source(
        'worker/performing/ending',
        'retryCount >= mostRetries(queue, job)',
        'retryCount > mostRetries(queue, job)',
      ),
    ],
    tests: ['worker/retry'],
  },
  {
    name: 'a lease counted from its answer',
    promise: 'P1',
    breaks: 'By the process’s clock its lease ends after it has by the server’s: it aborts too late.',
    edits: [
      source(
        'worker/membership/lease-thread',
        'expected.length === 0) return\n    renewed(askedAt)',
        'expected.length === 0) return\n    renewed(monotonicMs())',
      ),
    ],
    tests: ['worker/p1-lease'],
  },
  {
    name: 'a lease that is lengthened after its end',
    promise: 'P1',
    breaks:
      'A process that was stopped for longer than its lease goes on, and begins what others have taken over: all that it asks about its lease says yes.',
    edits: [source('worker/membership/lease-thread', '    if (expected.length === 0) return\n', '')],
    tests: ['worker/lease-thread.slow'],
  },
  {
    name: 'a batch that ends before its handler',
    promise: 'P1',
    breaks: 'Behind a middleware that does not wait, two handlers of an id run at once.',
    edits: [source('worker/middleware', 'underWay.outlast(from(0))', 'from(0)')],
    tests: ['worker/middleware'],
  },
  {
    name: 'a middleware that begins the handler after its batch',
    promise: 'P1',
    breaks:
      'Behind a middleware that forgets to return, a handler runs without a claim, beside another of its id.',
    edits: [source('promises', 'this.#over = true', '')],
    tests: ['worker/middleware'],
  },
]
