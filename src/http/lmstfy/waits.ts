/** Calls that wait, for a client that may go away, and for a gateway that may stop. */
export class Waits {
  readonly #controllers = new Set<AbortController>()
  #areOver = false

  /** Whether none may wait any more. */
  get areOver(): boolean {
    return this.#areOver
  }

  /** `wait` gets a signal that ends it. If that is because of the gateway, it has brought nothing. */
  async during<Result>(
    leaving: AbortSignal,
    wait: (ending: AbortSignal) => Promise<Result[]>,
  ): Promise<Result[]> {
    const controller = new AbortController()
    const leave = () => controller.abort(leaving.reason)
    if (leaving.aborted) leave()
    leaving.addEventListener('abort', leave, { once: true })
    this.#controllers.add(controller)
    try {
      return await wait(controller.signal)
    } catch (error) {
      if (this.#areOver && controller.signal.aborted && !leaving.aborted) return []
      throw error
    } finally {
      this.#controllers.delete(controller)
      leaving.removeEventListener('abort', leave)
    }
  }

  end(): void {
    this.#areOver = true
    for (const controller of this.#controllers) controller.abort(new Error('the gateway stops'))
  }
}
