/** What is known of an error: those of another thread lose their fields on the way. */
export interface SentError {
  readonly message: string
  readonly code: string | undefined
  /** The system call that failed. */
  readonly syscall: string | undefined
}

export function sentError(error: unknown): SentError {
  const { message, code, syscall } = error as NodeJS.ErrnoException
  return { message, code, syscall }
}

export function errorOf({ message, code, syscall }: SentError): Error {
  return Object.assign(new Error(message), { code, syscall })
}
