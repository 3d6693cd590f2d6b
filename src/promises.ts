/** For what a callback returned where no promise is expected: a rejection that nobody hears ends the process. */
export function ignoreRejection(value: unknown): void {
  if (value instanceof Promise) value.catch(() => {})
}
